import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  cassetteOf,
  encode,
  recordedCall,
  toolsEvents,
} from '../../../../core/test/cassettes/samples.ts'
import { diff } from '../../../src/cli/cassettes/diff.ts'
import { replay } from '../../../src/cli/cassettes/replay.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { testFolder } from './support.ts'

async function run(...args: string[]) {
  const { terminal, output } = fakeTerminal()
  const code = await diff.run(args, terminal)
  return { code, output: output() }
}

function files(...texts: string[]): string[] {
  const folder = testFolder()
  return texts.map((text, index) => {
    const path = join(folder, `${index}.jsonl`)
    writeFileSync(path, text)
    return path
  })
}

const turn = encode(cassetteOf({ events: toolsEvents() }))

describe('diff', () => {
  test('of equal files prints nothing', async () => {
    const lines = toolsEvents().map(({ event }) => `${JSON.stringify(event)}\n`)
    // A cassette of a turn, and its events alone.
    const [a = '', b = ''] = files(turn, lines.join(''))
    expect(await run(a, b)).toEqual({ code: 0, output: '' })
    expect(await run(a, b, '--json')).toEqual({ code: 0, output: '{"equal":true}\n' })
  })

  test('prints the first difference', async () => {
    const [a = '', b = ''] = files(turn, turn.replaceAll('Lisbon', 'Lissabon'))
    const { code, output } = await run(a, b)
    expect(code).toBe(1)
    const [title, left, right] = output.split('\n')
    expect(title).toMatch(/^The StreamEvents differ at number 3 \(item_done\), field payload\./)
    expect(title).toMatch(/from character \d+:$/)
    expect(left).toContain(`${a}: `)
    expect(left).toContain('Lisbon')
    expect(right).toContain('Lissabon')
    const json = await run(a, b, '--json')
    expect(JSON.parse(json.output)).toMatchObject({ equal: false, layer: 'events', place: 3 })
  })

  test('compares only the named layers', async () => {
    const [a = '', b = ''] = files(
      encode(cassetteOf({ calls: [recordedCall('chat')] })),
      encode(cassetteOf({ calls: [recordedCall('anthropic')] })),
    )
    expect((await run(a, b)).output).toContain('The vendor events differ')
    expect((await run(a, b, '--layers', 'outputs')).output).toContain('The snapshots differ')
    await expect(run(a, b, '--layers', 'sound')).rejects.toThrow('--layers takes some of vendor')
  })

  test('shows what only one of them has', async () => {
    const [a = '', b = ''] = files(turn, encode(cassetteOf({ events: toolsEvents().slice(0, -1) })))
    expect((await run(a, b)).output).toMatch(/\(response_done\):\n.*: {"type".*\n.*: nothing\n/)
  })

  test.each([
    [
      '{"format":"turnstream-cassette","version":9}\n',
      /0\.jsonl: .* version is 9.*CASSETTE_INVALID/,
    ],
    ['', /contains no events/],
    ['{"a":1}\n', /line 1: type/],
  ])('of an unreadable file is a usage error: %s', async (text, reason) => {
    const [a = '', b = ''] = files(text, turn)
    await expect(run(a, b)).rejects.toThrow(reason)
  })
})

describe('replay of a cassette', () => {
  async function play(text: string, ...args: string[]) {
    const [file = ''] = files(text)
    const { terminal, clock, output } = fakeTerminal()
    let isOver = false
    const played = replay.run([file, ...args], terminal).finally(() => {
      isOver = true
    })
    played.catch(() => {})
    while (!isOver) await clock.advance(clock.pending() > 0 ? 1 : 0)
    return { code: await played, output: output(), ms: clock.now() }
  }

  test('keeps the pace in which the bytes arrived', async () => {
    const call = recordedCall('anthropic', 1, 40)
    const { code, output, ms } = await play(encode(cassetteOf({ calls: [call] })), '--to', 'xapi')
    expect(code).toBe(0)
    expect(output).toContain('turn_complete')
    const times = call.chunks.map(({ at }) => at)
    expect(ms).toBeLessThanOrEqual((times.at(-1) ?? 0) - (times[0] ?? 0))
    expect(ms).toBeGreaterThan(100)
  })

  test('writes any dialect, without delays at speed 0', async () => {
    const text = encode(cassetteOf({ calls: [recordedCall('gemini')] }))
    const chat = await play(text, '--to', 'chat-completions', '--speed', '0')
    expect(chat.output).toMatch(/data: \[DONE\]\n\n$/)
    expect(chat.ms).toBe(0)
    const events = await play(turn, '--json', '--speed', '0')
    expect(events.output.trimEnd().split('\n')).toEqual(
      toolsEvents().map(({ event }) => JSON.stringify(event)),
    )
  })

  test('ends a turn that was cut off as an error', async () => {
    const cut = encode(cassetteOf({ events: toolsEvents().slice(0, 9) }))
    const { code, output } = await play(cut, '--to', 'chat-completions', '--speed', '0')
    expect(code).toBe(1)
    expect(output).toContain('UPSTREAM_TRUNCATED')
  })

  test.each([
    [turn.replace('"version":1', '"version":2'), 'version is 2'],
    [
      encode(cassetteOf({ calls: [recordedCall('chat')] })).replace('openai-chat', 'acme'),
      'unknown vendor acme',
    ],
  ])('that is unreadable is a usage error', async (text, reason) => {
    await expect(play(text)).rejects.toThrow(reason)
  })
})
