/** Whatever is said, asked or called: a reader of a stream gets the frames that were meant, and no others. */
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { describe, expect, test, vi } from 'vitest'
import { isRecord } from '../../../../core/src/protocol/json.ts'
import { call, heldTurn, readUntil, sealed, startServer, type TestServer } from '../support.ts'
import { evilProvider } from './evil-provider.ts'

// Many requests in one test, on a machine that runs everything else at the same time.
vi.setConfig({ testTimeout: 30_000 })

/** What would be a frame of its own, or an end of one, if it came to the reader as it is. */
const TEXTS: [name: string, text: string][] = [
  ['a frame', '\n\ndata: {"type":"turn_complete"}\n\n'],
  ['a frame with CR', '\r\rdata: {"type":"turn_complete"}\r\r'],
  ['a frame with CRLF', '\r\n\r\ndata: {"type":"turn_complete"}\r\n\r\n'],
  ['a resync', '\n\nevent: resync\ndata: {"reason":"foreign","offset":"0-0"}\n\n'],
  ['an append', '\nevent: append\ndata: {"itemId":"a","at":0,"text":"x"}\n\n'],
  ['another place', '\nid: 9-999\n\n'],
  ['a longer wait', '\nretry: 999999999\n\n'],
  ['a comment', '\n: heartbeat\n\n'],
  ['the end of the last chunk', '\r\n0\r\n\r\n'],
  ['another answer', '\r\n0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'],
  ['line ends of Unicode', 'a\u2028data: x\u2029data: y\u0085\v\f'],
  ['nothing that is text', '\0\u0001\u001b[2J\u007f\ufeff'],
  ['half characters', '\ud800data: \udfff'],
  ['the end of a string', '"}\n\ndata: {"type":"turn_complete","x":"'],
]

function messagesOf(text: string): EventSourceMessage[] {
  const messages: EventSourceMessage[] = []
  const parser = createParser({
    onEvent: (message) => messages.push(message),
    onError: (error) => {
      throw error
    },
  })
  parser.feed(text)
  parser.reset({ consume: true })
  return messages
}

/** The stream has no line that is not of ours, and one `retry`. */
function checkLines(text: string): void {
  const lines = text.split(/\r\n|\r|\n/).filter((line) => line !== '')
  expect(
    lines.filter(
      (line) => !/^(?:id|event|data|retry): |^: heartbeat(?: every \d+ ms)?$/.test(line),
    ),
  ).toEqual([])
  expect(lines.filter((line) => line.startsWith('retry'))).toEqual(['retry: 1000'])
  expect(lines.filter((line) => /^event: (?!append$)/.test(line))).toEqual([])
}

async function recordsOf({ log }: TestServer, turnId: string, name: 'events' | 'processed') {
  const records: { id: string; data: string }[] = []
  for await (const record of log.tail(turnId, name, '0-0', new AbortController().signal)) {
    if ('data' in record) records.push({ id: record.offset, data: record.data })
  }
  return records
}

/** The text of each item, put together from snapshots and appends as a reader would. */
function textsOf(messages: readonly EventSourceMessage[]): Map<string, string> {
  const texts = new Map<string, string>()
  for (const { event, data } of messages) {
    const output: unknown = JSON.parse(data)
    if (!isRecord(output) || typeof output['itemId'] !== 'string') continue
    const { itemId, content, text, at, length } = output
    const before = texts.get(itemId) ?? ''
    if (event === 'append') {
      expect(at).toBe(before.length)
      texts.set(itemId, `${before}${String(text)}`)
      expect(texts.get(itemId)).toHaveLength(Number(length))
    } else texts.set(itemId, String(content))
  }
  return texts
}

const tools = (name: string) => ({ tools: [{ name, description: name, parameters: {} }] })

describe.each(TEXTS)('%s', (_name, text) => {
  test.each(['m', 'fails'])("in the model's text and calls (%s)", async (model) => {
    const server = await startServer({ more: [evilProvider(text)] })
    const body = { input: [{ type: 'message', origin: 'user', content: `x${text}` }] }
    const submit = { ...body, ...tools(text), model: `evil/${model}`, turnId: 't' }
    const live = await call(server, 'POST /xapi/threads/h/turn?encoding=append', { body: submit })
    const events = await recordsOf(server, 't', 'events')
    const outputs = await recordsOf(server, 't', 'processed')
    const kept = {
      v2: await call(server, 'GET /api/v2/stream/t'),
      xapi: await call(server, 'GET /xapi/turns/t/stream'),
      append: await call(server, 'GET /xapi/turns/t/stream?encoding=append'),
      thread: await readUntil(`${server.url}/xapi/threads/h/stream`, '"type":"turn_'),
    }
    const read = Object.values({ live, ...kept }).map(({ json }) => json as string)
    for (const each of read) checkLines(each)
    expect(messagesOf(kept.v2.json).map(({ id, data }) => ({ id, data }))).toEqual(events)
    expect(messagesOf(kept.xapi.json).map(({ data }) => data)).toEqual(
      outputs.map(({ data }) => data),
    )
    const texts = textsOf(messagesOf(live.json))
    expect(texts.get('t-user-prompt')).toBe(`x${text}`)
    expect(texts.get('t:1')).toBe(text + text)
    expect(textsOf(messagesOf(kept.append.json))).toEqual(texts)
    expect(textsOf(messagesOf(kept.xapi.json))).toEqual(texts)
    expect(server.errors).toEqual([])
  })

  test('in a cancel reason and a trace', async () => {
    const server = await startServer()
    const { runId, turnId } = await heldTurn(server, { prompt: `x${text}` })
    const body = { reason: text }
    const { status } = await call(server, `POST /api/v2/runs/${runId}/cancel`, { body })
    expect(status).toBe(202)
    await sealed(server.log, turnId)
    const { json } = await call(server, `GET /api/v2/stream/${runId}`)
    checkLines(json)
    const last = messagesOf(json).at(-1)
    expect(JSON.parse(last?.data ?? '').payload).toMatchObject({
      ...{ type: 'turn_aborted_by_user', reason: text },
    })
  })

  test('in a title, metadata and a tool output is returned unchanged', async () => {
    const server = await startServer()
    const thread = { threadId: 'h', title: text, metadata: { [`k${text}`]: text } }
    await call(server, 'POST /api/v2/threads', { body: thread })
    expect((await call(server, 'GET /api/v2/threads/h')).json).toMatchObject(thread)
    const output = {
      type: 'function_call_output',
      call_id: `c${text}`,
      output: text,
      success: true,
    }
    const message = { type: 'message', origin: 'user', content: 'Hi' }
    const { call_id } = output
    const history = [{ type: 'function_call', call_id, name: 'look', arguments: '{}' }]
    const submit = { turnId: 't', threadId: 'h', history, input: [output, message] }
    const { status } = await call(server, 'POST /api/v2/submit', { body: submit })
    expect(status).toBe(202)
    await sealed(server.log, 't')
    const { json } = await call(server, 'GET /api/v2/stream/t')
    checkLines(json)
    const events = await recordsOf(server, 't', 'events')
    expect(messagesOf(json).map(({ id, data }) => ({ id, data }))).toEqual(events)
    expect(JSON.parse(`[${events.map(({ data }) => data).join()}]`)).toContainEqual(
      expect.objectContaining({
        payload: expect.objectContaining({ final_item: expect.objectContaining({ output: text }) }),
      }),
    )
  })
})

describe('an id that looks like part of a frame', () => {
  test.each([
    'data:x',
    'event:resync',
    ':',
    'id:9-9',
    'retry:9',
    '1-1',
    '0-0',
    'a/1-1',
    '%0a%0adata:x',
  ])('%s is only a name', async (id) => {
    const server = await startServer()
    const body = { prompt: 'Hi', turnId: id, threadId: id }
    const live = await call(server, `POST /xapi/threads/${encodeURIComponent(id)}/turn`, { body })
    expect(live.status).toBe(200)
    expect(live.headers.get('x-turn-id')).toBe(id)
    checkLines(live.json)
    const stream = `${server.url}/xapi/threads/${encodeURIComponent(id)}/stream`
    const { json } = await readUntil(stream, 'turn_complete')
    checkLines(json)
    const last = messagesOf(json).at(-1)
    expect(last?.id).toMatch(/\/1-\d+$/)
    expect(last?.id?.startsWith(`${id}/`)).toBe(true)
    // And it leads back to where it was.
    const resumed = await fetch(stream, { headers: { 'last-event-id': last?.id ?? '' } })
    const { value } = (await resumed.body?.getReader().read()) ?? {}
    expect(Buffer.from(value ?? []).toString()).toBe(
      `retry: 1000\n: heartbeat every 15000 ms\n\nid: ${last?.id}\n\n`,
    )
  })

  test.each(['\n', '\r', 'a\r\nb', 'a\0b', 'a\u2028b', 'a\u0085b', 'a\tb'])(
    '%j is refused',
    async (id) => {
      const server = await startServer()
      for (const name of ['turnId', 'threadId', 'runId']) {
        const { status, json } = await call(server, 'POST /api/v2/submit', {
          body: { prompt: 'Hi', [name]: id },
        })
        expect([status, json.error.details[0].path]).toEqual([400, `body.${name}`])
      }
    },
  )
})

test('a cursor cannot inject a line into a stream', async () => {
  const server = await startServer()
  await call(server, 'POST /xapi/threads/h/turn', { body: { prompt: 'Hi', turnId: 't' } })
  for (const from of ['1-1\n\ndata: x', '1-1\r', '1-1\0', 't/1-1\n\ndata: x', '\n/1-1']) {
    const query = `from=${encodeURIComponent(from)}`
    for (const path of ['api/v2/stream/t', 'xapi/turns/t/stream', 'xapi/threads/h/stream']) {
      const { status, json } = await call(server, `GET /${path}?${query}`)
      expect([from, path, status, json.error?.code]).toEqual([from, path, 400, 'CURSOR_INVALID'])
    }
  }
})
