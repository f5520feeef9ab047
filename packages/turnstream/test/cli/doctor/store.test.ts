/** The records of an embedded store, verified in a child process. */

import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { deltas, message } from '../../../../conformance/src/turn-log/texts.ts'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { doctor } from '../../../src/cli/doctor/doctor.ts'
import { checkDataFile, DATA_FILE } from '../../../src/log/embedded/data-file.ts'
import { openEmbeddedLog } from '../../../src/server.ts'
import { createTurn, endTurn } from '../../log/embedded/support.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { lockedStore } from './planted.ts'
import { checkNamed, folder, PATIENCE, type Report } from './support.ts'

/** Texts that stand in the file as they are. */
const marker = (turn: number) => `marker-of-turn-${turn}-`

async function storeOf(turns: number): Promise<string> {
  const directory = join(folder(), 'data')
  const log = await openEmbeddedLog({ directory, sync: 'system', commitIntervalMs: 0 })
  for (let turn = 1; turn <= turns; turn++) {
    const turnId = `turn-${turn}`
    const lease = await createTurn(log, turnId)
    await appendTo(log, lease, 'events', deltas(turnId, 1, 250))
    const data = message(turnId, 'item', marker(turn).repeat(400))
    await appendTo(log, lease, 'processed', [{ seq: 1, data }])
    await endTurn(log, lease, { events: 251, processed: 2 })
  }
  // An open turn has events in the journal.
  await appendTo(log, await createTurn(log, 'open'), 'events', deltas('open', 1, 3))
  await log.close()
  return directory
}

async function examine(directory: string) {
  const { terminal, output, statuses } = fakeTerminal([], { clock: systemClock, env: {} })
  const args = ['--port', '0', '--store', directory, '--json']
  const code = await doctor.run(args, terminal)
  return { code, report: JSON.parse(output()) as Report, statuses }
}

function filesOf(directory: string) {
  const names = readdirSync(directory).filter((name) => !name.endsWith('-lock'))
  return names.map((name) => [name, readFileSync(join(directory, name), 'base64')])
}

/** Replaces some bytes of a value. */
function damageText(directory: string, text: string): void {
  const file = join(directory, DATA_FILE)
  const bytes = readFileSync(file)
  const at = bytes.indexOf(text)
  expect(at).toBeGreaterThan(0)
  bytes.write('damaged', at + 1000)
  writeFileSync(file, bytes)
}

/** Cuts off as much as the first look at a file does not notice. */
async function cutOff(file: string): Promise<void> {
  const bytes = readFileSync(file)
  for (let pages = 2; ; pages++) {
    writeFileSync(file, bytes.subarray(0, pages * 4096))
    const isAccepted = await checkDataFile(file).then(
      () => true,
      () => false,
    )
    if (isAccepted) break
  }
  expect(statSync(file).size).toBeLessThan(bytes.length)
}

describe('the records of an embedded store', PATIENCE, () => {
  test('are verified and counted, without changes', async () => {
    const directory = await storeOf(60)
    const before = filesOf(directory)
    const { code, report, statuses } = await examine(directory)
    expect(code).toBe(0)
    expect(checkNamed(report, 'store records')).toEqual({
      name: 'store records',
      verdict: 'ok',
      found: expect.stringMatching(/^\d+ records of 61 turns verified$/),
      counts: { records: expect.any(Number), turns: 61, damagedRecords: 0, damagedTurns: 0 },
    })
    expect(statuses[0]).toMatch(/^verifying the store: \d+ %$/)
    expect(statuses.at(-1)).toBe('')
    expect(filesOf(directory)).toEqual(before)
  })

  test('are counted per turn when damaged', async () => {
    const directory = await storeOf(5)
    damageText(directory, marker(2))
    damageText(directory, marker(4))
    const before = filesOf(directory)
    const { code, report } = await examine(directory)
    expect(code).toBe(1)
    const check = checkNamed(report, 'store records')
    expect(check).toMatchObject({
      verdict: 'fail',
      counts: { turns: 6, damagedRecords: 2, damagedTurns: 2 },
    })
    expect(check?.found).toContain('turn "turn-2": record [2,0] of table processed is damaged')
    expect(check?.found).toContain('turn "turn-4"')
    expect(checkNamed(report, 'store')?.verdict).toBe('ok')
    expect(filesOf(directory)).toEqual(before)
  })

  test('are not read while another process uses the store', async () => {
    const { cwd = '' } = await lockedStore()
    const { report } = await examine(join(cwd, 'data'))
    expect(checkNamed(report, 'store records')).toMatchObject({
      verdict: 'skipped',
      found: expect.stringContaining('in use'),
    })
  })

  test('a file that lost its end is reported without a crash of LMDB', async () => {
    const directory = await storeOf(40)
    await cutOff(join(directory, DATA_FILE))
    const { code, report } = await examine(directory)
    expect(code).toBe(1)
    const found = expect.stringMatching(/refers to pages after the end of the file$/)
    expect(checkNamed(report, 'store')).toMatchObject({ verdict: 'fail', found })
    expect(checkNamed(report, 'store disk')?.verdict).not.toBe('skipped')
  })
})
