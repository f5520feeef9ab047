import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { SOURCE_NAMES, TARGET_NAMES } from '../../../core/src/formats/registry.ts'
import { convert } from '../../src/cli/convert.ts'
import { fakeTerminal } from './fake-terminal.ts'

const utf8 = new TextEncoder()
const TEXT = readFileSync('test/fixtures/anthropic-messages/text.sse', 'utf8')
const ERROR = readFileSync('test/fixtures/anthropic-messages/error-overloaded.sse', 'utf8')

async function run(input: string, ...args: string[]) {
  const { terminal, output, errors } = fakeTerminal([utf8.encode(input)])
  const code = await convert.run(args, terminal)
  return { code, output: output(), errors: errors() }
}

const from = (name: string, to: string, ...more: string[]) => ['--from', name, '--to', to, ...more]

/** JSON objects of a text with one to a line. */
function lines(text: string): Record<string, unknown>[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

describe('the output', () => {
  test.each(TARGET_NAMES)('as %s is SSE, or JSON lines with --json', async (target) => {
    const sse = await run(TEXT, ...from('anthropic-messages', target))
    expect(sse.code).toBe(0)
    expect(sse.output.trimEnd().split('\n\n').length).toBeGreaterThan(0)
    for (const frame of sse.output.trimEnd().split('\n\n'))
      expect(frame).toMatch(/^((id|event): .*\n)?data: /)
    const json = await run(TEXT, ...from('anthropic-messages', target, '--json'))
    expect(lines(json.output).length).toBeGreaterThan(0)
  })

  test('frames of v2 and xapi carry the offsets of their records', async () => {
    for (const target of ['v2', 'xapi']) {
      const { output } = await run(TEXT, ...from('anthropic-messages', target))
      const ids = [...output.matchAll(/^id: (.*)$/gm)].map(([, id]) => id)
      expect(ids).toEqual(ids.map((_, index) => `1-${index + 1}`))
    }
  })

  test('has a usage chunk only with --include-usage', async () => {
    const args = from('anthropic-messages', 'chat-completions')
    expect((await run(TEXT, ...args)).output).not.toContain('usage')
    expect((await run(TEXT, ...args, '--include-usage')).output).toContain('"prompt_tokens"')
  })

  test('accepts raw events as input', async () => {
    const raw = await run(TEXT, ...from('anthropic-messages', 'v2', '--json'))
    const again = await run(raw.output, ...from('v2', 'v2', '--json'))
    expect(again).toEqual(raw)
    const response = await run(raw.output, ...from('v2', 'response', '--json'))
    expect(lines(response.output)).toMatchObject([{ status: 'complete', finish_reason: 'stop' }])
  })

  test('has one result per response in the input', async () => {
    const two = await run(TEXT + TEXT, ...from('anthropic-messages', 'response', '--json'))
    expect(lines(two.output).map(({ status }) => status)).toEqual(['complete', 'complete'])
    const chat = await run(TEXT + TEXT, ...from('anthropic-messages', 'chat-completions'))
    expect(chat.output.match(/\[DONE\]/g)).toHaveLength(2)
  })

  test('reports unknown event types with --verbose', async () => {
    const strange = `event: novelty\ndata: {"type":"novelty"}\n\n${TEXT}`
    const args = from('anthropic-messages', 'response', '--json')
    expect((await run(strange, ...args)).errors).toBe('')
    expect((await run(strange, ...args, '--verbose')).errors).toContain('novelty')
  })
})

describe('the exit code', () => {
  test('is 1 when the turn failed, with complete output', async () => {
    const { code, output } = await run(ERROR, ...from('anthropic-messages', 'chat-completions'))
    expect(code).toBe(1)
    expect(output).toContain('overloaded')
    expect(output).toMatch(/data: \[DONE\]\n\n$/)
  })

  test('is 1 when the input is truncated', async () => {
    const cut = TEXT.slice(0, TEXT.indexOf('event: message_delta'))
    const { code, output } = await run(cut, ...from('anthropic-messages', 'response', '--json'))
    expect(code).toBe(1)
    expect(lines(output)).toMatchObject([
      { status: 'error', error: { code: 'UPSTREAM_TRUNCATED' } },
    ])
  })

  test('is 1 when raw events end with status error and late usage follows', async () => {
    const raw = await run(TEXT, ...from('anthropic-messages', 'v2', '--json'))
    const failed = raw.output.replace('"status":"complete"', '"status":"error"')
    expect((await run(failed, ...from('v2', 'v2'))).code).toBe(1)
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    const payload = { type: 'usage_update', response_id: 'run', usage }
    const late = { ...lines(raw.output)[0], event_id: 'late', type: 'usage_update', payload }
    const outcome = await run(
      raw.output + JSON.stringify(late),
      ...from('v2', 'response', '--json'),
    )
    expect(outcome.code).toBe(0)
    expect(lines(outcome.output)).toMatchObject([{ status: 'complete', usage }])
  })

  test('is 1 when raw events are truncated: open items fail first', async () => {
    const raw = await run(TEXT, ...from('anthropic-messages', 'v2', '--json'))
    const cut = raw.output.split('\n').slice(0, 3).join('\n')
    const { code, output } = await run(cut, ...from('v2', 'v2', '--json'))
    expect(code).toBe(1)
    expect(lines(output).slice(-2)).toMatchObject([
      { type: 'item_error', payload: { error: { code: 'UPSTREAM_TRUNCATED' } } },
      { type: 'response_error' },
    ])
  })
})

describe('usage errors', () => {
  test.each([
    [['--to', 'v2'], '--from takes one of'],
    [['--from', 'openai', '--to', 'v2'], "got 'openai'"],
    [['--from', 'gemini', '--to', 'yaml'], "got 'yaml'"],
    [['--from', 'gemini', '--to', 'v2', 'a', 'b'], 'one file'],
    [['--from', 'gemini', '--to', 'v2', '/no/such/file'], 'no such file'],
  ])('%j', async (args, message) => {
    await expect(run('', ...args)).rejects.toThrow(message)
  })

  test.each(SOURCE_NAMES)('an empty input from %s', async (name) => {
    const outcome = await run('', ...from(name, 'response', '--json')).catch(
      (error: Error) => error,
    )
    // Nothing came: for a provider that is an answer cut off, for a file of events an empty file.
    if (outcome instanceof Error) expect(outcome.message).toContain('empty')
    else expect(outcome.code).toBe(1)
  })

  test('an unreadable line is named by number', async () => {
    const broken = '{"type":"ping"}\n\n{"type":\n{"type":"ping"}\n'
    await expect(run(broken, ...from('anthropic-messages', 'v2'))).rejects.toThrow(/3 of the input/)
    const bad = '\n\n{"type":"item_delta"}\n{"type":"item_delta"}\n'
    await expect(run(bad, ...from('v2', 'response'))).rejects.toThrow(/3 of the input/)
  })
})
