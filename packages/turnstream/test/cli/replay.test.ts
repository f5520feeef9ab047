import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { toolsTurn } from '../../../../test/demo-recordings.ts'
import { replay } from '../../src/cli/cassettes/replay.ts'
import { fakeTerminal } from './fake-terminal.ts'

let folder = ''
let file = ''

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-replay-'))
  file = join(folder, 'turn.jsonl')
  const lines = toolsTurn().map((event) => JSON.stringify(event))
  writeFileSync(file, lines.join('\n'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function run(...args: string[]) {
  const { terminal, clock, output } = fakeTerminal()
  let isOver = false
  const played = replay.run(args, terminal).finally(() => {
    isOver = true
  })
  // Refusals are looked at by the tests.
  played.catch(() => {})
  // The file is read in real time; the clock only moves while code waits for it.
  while (!isOver) await clock.advance(clock.pending() > 0 ? 1 : 0)
  return { code: await played, output: output(), ms: clock.now() }
}

describe('replay', () => {
  test('returns the recorded events unchanged', async () => {
    const { code, output } = await run(file, '--json', '--speed', '0')
    expect(code).toBe(0)
    expect(
      output
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual(toolsTurn())
  })

  test('keeps the pace of the recording', async () => {
    const script = toolsTurn()
    const recorded = (script.at(-1)?.timestamp ?? 0) - (script[0]?.timestamp ?? 0)
    expect((await run(file, '--speed', '1')).ms).toBeCloseTo(recorded, -1)
    expect((await run(file, '--speed', '4')).ms).toBeCloseTo(recorded / 4, -2)
    expect((await run(file, '--speed', '0')).ms).toBe(0)
  })

  test('ends a truncated turn as an error at once', async () => {
    const cut = join(folder, 'cut.jsonl')
    const lines = toolsTurn().map((event) => JSON.stringify(event))
    writeFileSync(cut, lines.slice(0, 8).join('\n'))
    const { code, output } = await run(cut, '--to', 'chat-completions')
    expect(code).toBe(1)
    expect(output).toContain('UPSTREAM_TRUNCATED')
    expect(output).toMatch(/data: \[DONE\]\n\n$/)
  })

  test('writes every dialect', async () => {
    const chat = await run(file, '--to', 'chat-completions', '--speed', '0')
    expect(chat.output).toMatch(/data: \[DONE\]\n\n$/)
    const response = await run(file, '--to', 'response', '--json', '--speed', '0')
    expect(JSON.parse(response.output)).toMatchObject({ status: 'complete' })
    const xapi = await run(file, '--to', 'xapi', '--json', '--speed', '0')
    expect(xapi.output).toContain('"type":"turn_complete"')
  })

  test.each([
    [[], 'one file'],
    [['/no/such/file'], 'no such file'],
    [['package.json'], 'package.json: line 1'],
    [['a', '--speed', 'x'], '--speed'],
    [['a', '--to', 'yaml'], '--to takes one of'],
  ])('%j is a usage error', async (args, message) => {
    await expect(run(...args)).rejects.toThrow(message)
  })
})
