/** A stream of Chat Completions is a view of a turn: it can be left, stopped, resumed and read by many. */

import fc from 'fast-check'
import { APIUserAbortError } from 'openai'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../../test/case-count.ts'
import { fakeClock } from '../../../../conformance/src/index.ts'
import type { StreamEvent, StreamEventPayload } from '../../../../core/src/index.ts'
import { createScriptedProvider } from '../../../src/index.ts'
import { MemoryLog } from '../../../src/server.ts'
import { call, sealed, startServer, type TestServer } from '../support.ts'
import { UNLIMITED } from '../unlimited.ts'
import { clientOf, dataOf, HELLO, post } from './stage.ts'

const HELD = { model: 'held/m', messages: HELLO, stream: true as const }
const TIED = { headers: { 'turnstream-cancel-on-disconnect': 'true' } }

/** A stream of which the first word has arrived. */
async function begun(server: TestServer, options: { headers?: Record<string, string> } = {}) {
  const next = server.held.nextCall()
  const asked = clientOf(server).chat.completions.create(HELD, options).withResponse()
  const running = await next
  running.say('One ')
  const { data: stream, response } = await asked
  const chunks = stream[Symbol.asyncIterator]()
  const turnId = response.headers.get('x-turn-id') ?? ''
  let text = ''
  while (text === '') text += (await chunks.next()).value?.choices[0]?.delta.content ?? ''
  return { running, stream, chunks, turnId, text }
}

/** Waits until the only place for a stream is free again: the server then knows that its client has left. */
async function noticed(server: TestServer): Promise<void> {
  let status = 429
  while (status === 429) status = (await post(server, { ...HELD, model: 'plain/m' })).status
}

describe('a client that disconnects', () => {
  test('does not cancel the turn', async () => {
    const server = await startServer({ limits: { ...UNLIMITED, maxOpenStreams: 1 } })
    const { running, stream, turnId } = await begun(server)
    stream.controller.abort()
    await noticed(server)
    running.say('two')
    running.finish()
    await sealed(server.log, turnId)
    const { json } = await call(server, `GET /api/v2/runs/${turnId}`)
    expect(json).toMatchObject({ status: 'complete' })
    expect(json.output_items.at(-1).content).toBe('One two')
  })

  test('cancels it when requested, even before the headers or without a stream', async () => {
    const server = await startServer()
    const { stream, turnId, running } = await begun(server, TIED)
    stream.controller.abort()
    await sealed(server.log, turnId)
    expect(await server.log.getTurn(turnId)).toMatchObject({ status: 'aborted' })
    expect(running.signal.aborted).toBe(true)
    for (const isStream of [true, false]) {
      const leave = new AbortController()
      const next = server.held.nextCall()
      const asked = clientOf(server).chat.completions.create(
        { ...HELD, stream: isStream },
        { ...TIED, signal: leave.signal },
      )
      const held = await next
      leave.abort()
      await expect(asked).rejects.toBeInstanceOf(APIUserAbortError)
      await sealed(server.log, held.runId)
      expect(await server.log.getTurn(held.runId)).toMatchObject({ status: 'aborted' })
    }
    expect(server.errors).toEqual([])
  })

  test('releases its slot', async () => {
    const server = await startServer({ limits: { maxOpenStreams: 1, maxRunningTurns: 10 } })
    const { stream, turnId } = await begun(server, TIED)
    stream.controller.abort()
    await sealed(server.log, turnId)
    const { running, text } = await begun(server)
    expect(text).toBe('One ')
    running.finish()
  })

  test('can read the turn later as raw events and snapshots', async () => {
    const server = await startServer()
    const { running, stream, turnId } = await begun(server)
    stream.controller.abort()
    running.say('two')
    running.finish()
    const events = await call(server, `GET /api/v2/stream/${turnId}`)
    expect(events.json).toContain('"delta_content":"two"')
    expect(events.json).toContain('"type":"response_done"')
    const outputs = await call(server, `GET /xapi/turns/${turnId}/stream`)
    expect(outputs.json).toContain('"content":"One two"')
  })
})

test('two readers of one turn get the same stream', async () => {
  const server = await startServer()
  const key = { 'idempotency-key': 'key' }
  const next = server.held.nextCall()
  const first = post(server, HELD, key)
  const running = await next
  const second = post(server, HELD, key)
  running.say('One')
  running.say(' two')
  running.finish()
  const [one, other] = [await first, await second]
  const later = await post(server, HELD, key)
  expect(dataOf(one.text)).toEqual(dataOf(other.text))
  expect(dataOf(one.text)).toEqual(dataOf(later.text))
  expect(server.held.calls).toHaveLength(1)
})

describe('the headers of a stream', () => {
  async function waiting() {
    const clock = fakeClock(1_700_000_000_000)
    const server = await startServer({ clock, heartbeatMs: 15_000, leaseMs: 3_600_000 })
    const next = server.held.nextCall()
    let hasHead = false
    const asked = clientOf(server)
      .chat.completions.create(HELD)
      .withResponse()
      .then((answer) => {
        hasHead = true
        return answer
      })
    return { clock, running: await next, asked, hasHead: () => hasHead }
  }

  test('wait for the first output for at most five seconds', async () => {
    const { clock, running, asked, hasHead } = await waiting()
    await clock.advance(4999)
    expect(hasHead()).toBe(false)
    await clock.advance(1)
    const { data: stream, response } = await asked
    expect(response.headers.get('x-turn-id')).toBe(running.runId)
    running.say('One')
    running.finish()
    let text = ''
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? ''
    expect(text).toBe('One')
  })

  test('are followed by heartbeat comments, which the client ignores', async () => {
    const { clock, running, asked } = await waiting()
    await clock.advance(5000)
    const { response } = await asked
    const text = response.clone().text()
    for (let beat = 0; beat < 3; beat++) await clock.advance(15_000)
    running.say('One')
    running.finish()
    const raw = await text
    expect(raw).toContain(': heartbeat\n\n')
    expect(raw).not.toMatch(/^(?:id|retry|event):/m)
    expect(raw).not.toMatch(/^data: ?$/m)
    expect(raw.endsWith('data: [DONE]\n\n')).toBe(true)
    let heard = ''
    for await (const { choices } of (await asked).data) heard += choices[0]?.delta.content ?? ''
    expect(heard).toBe('One')
  })

  test('prevent proxy buffering', async () => {
    const { headers } = await post(await startServer(), {
      ...HELD,
      model: 'plain/m',
    })
    expect(headers.get('content-type')).toMatch(/^text\/event-stream/)
    expect(headers.get('cache-control')).toContain('no-transform')
    expect(headers.get('x-accel-buffering')).toBe('no')
  })
})

describe('a stream that ends before its turn is not a complete answer', () => {
  async function heardBy(chunks: AsyncIterator<unknown>): Promise<unknown> {
    try {
      for (;;) if ((await chunks.next()).done === true) return 'nothing'
    } catch (error) {
      return error
    }
  }

  test('when the turn is deleted', async () => {
    const server = await startServer()
    const { chunks, turnId } = await begun(server)
    const { threadId } = (await server.log.getTurn(turnId)) ?? { threadId: '' }
    await call(server, `DELETE /api/v2/threads/${threadId}`)
    expect(await heardBy(chunks)).toMatchObject({
      code: expect.stringMatching(/^(?:TURN_DELETED|ABORTED)$/),
    })
  })

  test('when the server stops', async () => {
    const server = await startServer()
    const { chunks } = await begun(server)
    void server.close()
    expect(await heardBy(chunks)).toMatchObject({ code: 'SERVER_SHUTDOWN' })
  })

  test('when a server stops that does not run the turn', async () => {
    const log = new MemoryLog()
    const owner = await startServer({ log })
    const reader = await startServer({ log })
    const next = owner.held.nextCall()
    const key = { headers: { 'idempotency-key': 'key' } }
    const body = { ...HELD, stream: true as const }
    const first = clientOf(owner).chat.completions.create(body, key)
    const running = await next
    running.say('One ')
    await first
    const stream = await clientOf(reader).chat.completions.create(body, key)
    const chunks = stream[Symbol.asyncIterator]()
    await chunks.next()
    void reader.close()
    expect(await heardBy(chunks)).toMatchObject({ code: 'STREAM_ERROR' })
    running.finish()
  })
})

test('a slow reader gets everything', async () => {
  const server = await startServer()
  const { running, chunks, text } = await begun(server)
  const piece = 'x'.repeat(1000)
  for (let count = 0; count < 500; count++) running.say(piece)
  running.finish()
  let length = text.length
  for (;;) {
    const { done, value } = await chunks.next()
    if (done === true) break
    length += value.choices[0]?.delta.content?.length ?? 0
  }
  expect(length).toBe('One '.length + 500_000)
})

function recorded(payloads: readonly StreamEventPayload[]): StreamEvent[] {
  return payloads.map((payload, index) => ({
    ...{ event_id: `e${index}`, timestamp: 1, trace_context: { traceparent: '' }, run_id: 'r' },
    ...{ type: payload.type, payload },
  })) as StreamEvent[]
}

const START: StreamEventPayload = {
  ...{ type: 'response_start', response_id: 'x', turn_id: 't', thread_id: 'h' },
  ...{ model_id: 'm', provider_id: 'any', created_at: 1 },
}

test('a stream equals the complete answer however the text is split', async () => {
  const recordings: Record<string, StreamEvent[]> = {}
  const provider = createScriptedProvider({ id: 'any', recordings, speed: Infinity })
  const server = await startServer({ more: [provider] })
  let count = 0
  await fc.assert(
    fc.asyncProperty(fc.array(fc.string({ unit: 'binary' }), { maxLength: 20 }), async (pieces) => {
      const model = `m${(count += 1)}`
      const item = { item_id: 'a', item_type: 'message', origin: 'agent' } as const
      const final = { type: 'message', id: 'a', content: pieces.join(''), origin: 'agent' } as const
      recordings[model] = recorded([
        START,
        { type: 'item_start', ...item },
        ...pieces.map((delta_content) => ({
          ...{ type: 'item_delta' as const, item_id: 'a', delta_content },
        })),
        { type: 'item_done', item_id: 'a', final_item: final },
        { type: 'response_done', response_id: 'x', status: 'complete', finish_reason: 'stop' },
      ])
      const ask = { model: `any/${model}`, messages: HELLO }
      const whole = JSON.parse((await post(server, ask)).text)
      const { text } = await post(server, { ...ask, stream: true })
      const chunks = dataOf(text)
        .slice(0, -1)
        .map((data) => JSON.parse(data))
      const heard = chunks.map(({ choices }) => choices[0].delta.content ?? '').join('')
      expect(heard).toBe(pieces.join(''))
      expect(whole.choices[0].message.content).toBe(heard)
    }),
    { numRuns: caseCount(40) },
  )
})
