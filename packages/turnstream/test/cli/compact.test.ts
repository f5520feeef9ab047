import { statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import { deltas } from '../../../conformance/src/turn-log/texts.ts'
import { compact } from '../../src/cli/compact.ts'
import { createTurn, endTurn, folderOfTest, openLog, readEvents } from '../log/embedded/support.ts'
import { fakeTerminal } from './fake-terminal.ts'

async function run(...args: string[]) {
  const { terminal, output, errors, statuses } = fakeTerminal()
  const code = await compact.run(args, terminal)
  return { code, output: output(), errors: errors(), statuses }
}

/** A store from which most was deleted. */
async function usedStore(): Promise<string> {
  const directory = folderOfTest()
  const log = await openLog(directory)
  for (let turn = 1; turn <= 30; turn++) {
    const lease = await createTurn(log, `turn-${turn}`)
    for (let from = 1; from < 1000; from += 250) {
      await appendTo(log, lease, 'events', deltas(`turn-${turn}`, from, from + 249))
    }
    await endTurn(log, lease, { events: 1001, processed: 1 })
  }
  for (let turn = 2; turn <= 30; turn++) await log.deleteTurn(`turn-${turn}`)
  await log.close()
  return directory
}

const sizeOf = (directory: string) => statSync(join(directory, 'turns.mdb')).size

describe('compact', () => {
  test('frees space, prints how much, and keeps every record', async () => {
    const directory = await usedStore()
    const before = sizeOf(directory)
    const { code, output, statuses } = await run(directory)
    expect(code).toBe(0)
    expect(output).toMatch(/^\d+\.\d MB before, \d+\.\d MB after: \d+ % freed\n$/)
    expect(sizeOf(directory)).toBeLessThan(before / 2)
    expect(statuses[0]).toMatch(/MB written$/)
    expect(statuses.at(-1)).toBe('')
    const log = await openLog(directory)
    expect(await readEvents(log, 'turn-1', 1001)).toHaveLength(1001)
    expect(await log.getTurn('turn-2')).toBeUndefined()
  })

  test('prints JSON with --json', async () => {
    const directory = await usedStore()
    const { code, output } = await run(directory, '--json')
    const { bytesBefore, bytesAfter } = JSON.parse(output) as Record<string, number>
    expect(code).toBe(0)
    expect(bytesAfter).toBe(sizeOf(directory))
    expect(bytesBefore).toBeGreaterThan(bytesAfter ?? Infinity)
  })

  test('refuses a store in use and leaves it unchanged', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    const { code, errors, output } = await run(directory)
    expect([code, output]).toEqual([1, ''])
    expect(errors).toContain(directory)
    expect(errors).toContain('(STORE_LOCKED)')
    await appendTo(log, lease, 'events', deltas('turn', 1, 3))
    expect(await readEvents(log, 'turn', 3)).toHaveLength(3)
  })

  test('fails for a directory without a store', async () => {
    const { code, output } = await run(join(folderOfTest(), 'nothing'), '--json')
    expect(code).toBe(1)
    expect(JSON.parse(output)).toMatchObject({ error: { code: 'STORE_FAILED' } })
  })

  test.each([[[]], [['a', 'b']], [['a', '--nonsense']]])('%j is a usage error', async (args) => {
    await expect(run(...args)).rejects.toThrow(/directory|nonsense/)
  })
})
