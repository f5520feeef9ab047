import { expect, test } from 'vitest'
import { printable } from '../../../core/src/protocol/printable.ts'
import { chat } from '../../src/cli/chat.ts'
import { formatHelp } from '../../src/cli/command.ts'
import { serve } from '../../src/cli/serve/serve.ts'
import { escapeControls, wrap } from '../../src/cli/text.ts'
import { turnstream } from './process.ts'
import { serverWith, sse } from './sse-server.ts'

/** A title, a cleared screen, C1 forms of both, DEL, an override and an isolate, a carriage return. */
const HOSTILE = '\u001b]0;owned\u0007\u001b[2J\u009d0;owned\u009c\u009b2J\u007f\u202e\u2066\r'

/** What no output may hold, whatever the input was. */
const FORBIDDEN = /[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u

const cwd = new URL('../../../..', import.meta.url).pathname

test('printable drops control characters and keeps text', () => {
  expect(printable(`a\tb\n${HOSTILE}é 漢 🙂`)).toBe('a\tb\n]0;owned[2J0;owned2Jé 漢 🙂')
})

test('escapeControls keeps our own styles and escapes the rest', () => {
  expect(escapeControls('\u001b[36mtitle\u001b[39m')).toBe('\u001b[36mtitle\u001b[39m')
  const escaped = escapeControls(HOSTILE)
  expect(escaped).not.toMatch(FORBIDDEN)
  expect(escaped).toContain('\\u001b[2J\\u009d0')
})

test('an escaped JSON text has the same value', () => {
  const value = { text: `${HOSTILE}"\\ \u2067` }
  const text = escapeControls(JSON.stringify(value))
  expect(text).not.toMatch(FORBIDDEN)
  expect(JSON.parse(text)).toEqual(value)
})

const started = { type: 'turn_started', turnId: 't', threadId: 'h', modelId: HOSTILE }
const message = {
  type: 'message',
  turnId: 't',
  threadId: 'h',
  itemId: `i${HOSTILE}`,
  origin: 'agent',
  status: 'complete',
  content: `hello ${HOSTILE}`,
}
const failed = {
  type: 'turn_error',
  turnId: 't',
  threadId: 'h',
  error: { code: HOSTILE, message: HOSTILE },
}

const event = {
  event_id: 'e',
  timestamp: 1,
  trace_context: { traceparent: '' },
  run_id: HOSTILE,
  type: 'response_error',
  payload: {
    type: 'response_error',
    response_id: HOSTILE,
    error: { code: HOSTILE, message: HOSTILE },
  },
}

/** A server that puts control characters wherever a frame can carry them. */
function hostileServer(outputs: readonly object[]) {
  // A frame id cannot hold a line end; that is the transport's.
  const id = HOSTILE.replace('\r', '')
  const json = (status: number, body: unknown) => ({ status, body: JSON.stringify(body) }) as const
  return serverWith((response, _headers, path) => {
    if (path.includes('/stream')) {
      sse(response)
      // The stream of a chat would start over.
      if (!path.includes('encoding=append')) {
        response.write(`event: resync\nid: ${id}\ndata: {"reason":"${id}"}\n\n`)
      }
      const [, turnId] = /turns\/([^/]+)/.exec(path) ?? []
      for (const output of outputs) {
        const data = JSON.stringify({ ...output, ...(turnId && { turnId }) })
        response.write(`id: ${id}\ndata: ${data}\n\n`)
      }
      return
    }
    const answer = path.endsWith('/submit')
      ? json(202, { runId: 't', turnId: 't', threadId: `h${id}` })
      : json(418, { error: { code: `ODD${HOSTILE}`, message: HOSTILE } })
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.body)
  })
}

test.each([
  ['tail', ['tail', 't'], [started, message, failed]],
  ['tail --json', ['tail', 't', '--json'], [started, message, failed]],
  ['tail --raw', ['tail', 't', '--raw'], [event]],
  ['tail --raw --json', ['tail', 't', '--raw', '--json'], [event]],
  ['chat', ['chat', 'hello'], [started, message, failed]],
  ['chat --json', ['chat', '--json', 'hello'], [started, message, failed]],
  ['a refusal', ['chat', '--thread', 'x', 'hello'], []],
  ['a refusal as JSON', ['chat', '--json', '--thread', 'x', 'hello'], []],
])('%s prints no terminal control sequences', { tags: ['slow'] }, async (_name, args, outputs) => {
  const { url } = await hostileServer(outputs)
  const run = turnstream([...args, '--url', url], { cwd })
  expect(await run.ended).toBe(1)
  expect(run.stdout() + run.stderr()).not.toBe('')
  expect(run.stdout()).not.toMatch(FORBIDDEN)
  expect(run.stderr()).not.toMatch(FORBIDDEN)
})

test.each([[[]], [['--json']]])(
  'convert --verbose %j prints no terminal control sequences',
  async (more) => {
    const args = ['convert', '--from', 'openai-responses', '--to', 'xapi', '--verbose', ...more]
    const run = turnstream(args, { cwd })
    const events = [
      { type: `response.${HOSTILE}` },
      {
        type: 'response.failed',
        response: { id: 'r', error: { code: HOSTILE, message: HOSTILE } },
      },
    ]
    run.child.stdin?.end(events.map((each) => `${JSON.stringify(each)}\n`).join(''))
    await run.ended
    expect(run.stdout()).toContain('turn_error')
    expect(run.stderr()).toContain('unknown event type')
    expect(run.stdout()).not.toMatch(FORBIDDEN)
    expect(run.stderr()).not.toMatch(FORBIDDEN)
  },
)

test('an unknown command prints no terminal control sequences', async () => {
  const run = turnstream([HOSTILE], { cwd })
  expect(await run.ended).toBe(2)
  expect(run.stderr()).not.toMatch(FORBIDDEN)
})

test.each([
  ['a short line', 'a short line'],
  ['one line that is too long', 'one line that is too\nlong'],
  ['--port  the port to listen on', '--port  the port to\n        listen on'],
  ['  turnstream tail <turnId>', '  turnstream tail\n  <turnId>'],
  ['https://example.com/a/very/long/path', 'https://example.com/a/very/long/path'],
])('%j is wrapped with a hanging indent', (line, wrapped) => {
  expect(wrap(line, 20)).toBe(wrapped)
})

test('help fits into a terminal of 80 columns', () => {
  const lines = [serve, chat].flatMap((command) => formatHelp(command, 80).split('\n'))
  expect(lines.filter((line) => line.length > 80)).toEqual([])
})
