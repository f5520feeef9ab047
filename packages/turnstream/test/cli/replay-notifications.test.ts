/** Recordings of codex app-servers, played into every dialect. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { replay } from '../../src/cli/cassettes/replay.ts'
import { fakeTerminal } from './fake-terminal.ts'

const FIXTURES = 'test/fixtures/codex'
const FRAMES = 'test/goldens/codex-frames'

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-replay-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function play(file: string, ...args: string[]) {
  const { terminal, clock, output } = fakeTerminal()
  let isOver = false
  const played = replay.run([file, ...args], terminal).finally(() => {
    isOver = true
  })
  played.catch(() => {})
  while (!isOver) await clock.advance(clock.pending() > 0 ? 1 : 0)
  return { code: await played, output: output(), ms: clock.now() }
}

/** Writes a file of JSON lines and plays it. */
async function playLines(lines: readonly unknown[], ...args: string[]) {
  const file = join(folder, 'recording.jsonl')
  writeFileSync(file, lines.map((line) => JSON.stringify(line)).join('\n'))
  return play(file, ...args)
}

interface Chunk {
  error?: { message: string; code: string }
  usage?: object | null
  choices?: {
    finish_reason: string | null
    delta: { content?: string; reasoning_content?: string; tool_calls?: object[] }
  }[]
}

/** What a client makes of Chat Completions frames. */
function contentOf(sse: string) {
  const frames = sse.trimEnd().split('\n\n')
  expect(frames.at(-1)).toBe('data: [DONE]')
  const chunks = frames.slice(0, -1).map((frame) => JSON.parse(frame.slice(6)) as Chunk)
  const deltas = chunks.flatMap(({ choices = [] }) => choices.map(({ delta }) => delta))
  const errors = chunks.flatMap(({ error }) => error ?? [])
  return {
    texts: deltas.flatMap(({ content }) => content || []),
    // The two parts of the recorded reasoning are separated by an empty line here.
    thoughts: deltas.map(({ reasoning_content: text = '' }) => text.replace('\n\n', '')).join(''),
    calls: callsOf(deltas.flatMap(({ tool_calls = [] }) => tool_calls) as CallPart[]),
    ends: chunks.flatMap(({ choices = [] }) => choices.flatMap((each) => each.finish_reason ?? [])),
    errors: errors.map(({ code, message }) => ({ code, message })),
    usage: chunks.flatMap(({ usage }) => usage ?? []),
  }
}

interface CallPart {
  index: number
  id?: string
  function: { name?: string; arguments?: string }
}

function callsOf(parts: readonly CallPart[]) {
  const calls: { id: string; name: string; args: string }[] = []
  for (const { index, id, function: part } of parts) {
    const call = (calls[index] ??= { id: id ?? '', name: part.name ?? '', args: '' })
    call.args += part.arguments ?? ''
  }
  return calls
}

describe('the frames of a recording', () => {
  const expected = readdirSync(FRAMES)

  test.each(expected)('match %s', async (name) => {
    const recording = join(FIXTURES, name.replace('.sse.txt', '.jsonl'))
    const args = ['--to', 'chat-completions', '--include-usage', '--speed', '0']
    const { usage, ...played } = contentOf((await play(recording, ...args)).output)
    const { usage: given, ...rest } = contentOf(readFileSync(join(FRAMES, name), 'utf8'))
    expect(played).toEqual(rest)
    // The client that recorded them knew no usage of a response that was cut off.
    if (given.length > 0) expect(usage).toEqual([expect.objectContaining(given[0] ?? {})])
  })
})

const HELLO = 'Hello from the fake provider. This is a plain text answer, streamed word by word.'

describe('every grammar', () => {
  test.each([
    ['legacy-v0.50.0-v1-text', HELLO],
    ['legacy-v0.77.0-v1-text', HELLO],
    ['legacy-v0.107.0-v2-text', HELLO],
    ['legacy-v0.114.0-v2-text', HELLO],
    ['gateway-text', HELLO],
    ['bare-names', 'Hello there.'],
  ])('%s says its text once, in every dialect', async (name, text) => {
    const recording = join(FIXTURES, `${name}.jsonl`)
    const chat = await play(recording, '--to', 'chat-completions', '--speed', '0')
    expect(contentOf(chat.output).texts.join('')).toBe(text)
    const response = await play(recording, '--to', 'response', '--json', '--speed', '0')
    const { output_items: items } = JSON.parse(response.output) as {
      output_items: { origin: string; content: string }[]
    }
    const said = items.filter(({ origin }) => origin === 'agent').map(({ content }) => content)
    expect(said).toEqual([text])
    const v2 = await play(recording, '--json', '--speed', '0')
    expect(v2.output).toContain('"type":"item_delta"')
    const xapi = await play(recording, '--to', 'xapi', '--json', '--speed', '0')
    expect(xapi.output).toContain('"type":"turn_complete"')
  })

  test('response.* notifications end with their tool call', async () => {
    const recording = join(FIXTURES, 'response-notifications.jsonl')
    const { output } = await play(recording, '--to', 'chat-completions')
    expect(contentOf(output)).toMatchObject({
      calls: [{ id: 'call_1', name: 'get_time', args: '{"tz":"UTC"}' }],
      ends: ['tool_calls'],
    })
  })
})

const delta = (text: string) => ({ method: 'agentMessageDelta', params: { delta: text } })
const END = { method: 'task_complete', params: { last_agent_message: 'ab' } }

describe('the pace', () => {
  const wrapped = [
    { t: 1000, dir: 'c2s', msg: { method: 'initialize', id: 0 } },
    { t: 5000, dir: 's2c', msg: delta('a') },
    { t: 5400, dir: 's2c', msg: delta('b') },
    { t: 6000, dir: 's2c', msg: END },
  ]

  test('comes from the recorder, from the first event on', async () => {
    expect((await playLines(wrapped)).ms).toBe(1000)
    expect((await playLines(wrapped, '--speed', '4')).ms).toBe(250)
    expect((await playLines(wrapped, '--speed', '0')).ms).toBe(0)
  })

  test('comes from emittedAtMs without a recorder', async () => {
    const at = (ms: number, message: object) => ({
      ...message,
      emittedAtMs: 1_794_776_841_000 + ms,
    })
    const lines = [at(0, delta('a')), at(300, delta('b')), at(100, END)]
    expect((await playLines(lines)).ms).toBe(300)
  })

  test('is none without times', async () => {
    const { ms, output } = await playLines([delta('a'), delta('b'), END], '--to', 'response')
    expect([ms, output.includes('"content":"ab"')]).toEqual([0, true])
  })

  test('is kept for a real recording', async () => {
    const lines = readFileSync(join(FIXTURES, 'gateway-text.jsonl'), 'utf8').trim().split('\n')
    const times = lines.map((line) => JSON.parse(line) as { t: number; msg?: { method?: string } })
    const first = times.find(({ msg }) => msg?.method === 'turn/started')?.t ?? 0
    const last = times.find(({ msg }) => msg?.method === 'turn/completed')?.t ?? 0
    expect((await play(join(FIXTURES, 'gateway-text.jsonl'))).ms).toBe(last - first)
  })
})

describe('a file of notifications', () => {
  test('that is truncated ends as an error', async () => {
    const { code, output } = await playLines([delta('a')], '--to', 'chat-completions')
    expect(code).toBe(1)
    expect(output).toContain('UPSTREAM_TRUNCATED')
  })

  test('without a turn is refused', async () => {
    await expect(playLines([{ hello: 'world' }])).rejects.toThrow('contains no events')
    await expect(playLines([])).rejects.toThrow('contains no events')
  })

  test('with a line that is not JSON is refused by its number', async () => {
    const file = join(folder, 'broken.jsonl')
    writeFileSync(file, `${JSON.stringify(delta('a'))}\nnot json\n`)
    await expect(play(file)).rejects.toThrow('line 2')
  })
})
