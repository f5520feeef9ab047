/** The routes of OpenAI on the stores that keep turns: a client notices neither which it is nor a restart. */
import { APIError } from 'openai'
import type { ChatCompletionChunk } from 'openai/resources'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { folderOfTest, openLog } from '../../log/embedded/support.ts'
import { OpenLogs } from '../../log/redis/support.ts'
import { call, sealed, startServer, type TestServer } from '../support.ts'
import { ASK, clientOf, dataOf, fixtures, HELLO, post, stage } from './stage.ts'

let redis: Awaited<ReturnType<typeof startRedis>>
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

/** What opens the same turns each time; what is open ends with the test. */
type Open = () => Promise<TurnLog>

function embedded(): Open {
  const directory = folderOfTest()
  return () => openLog(directory)
}

function inRedis(): Open {
  const logs = new OpenLogs({ url: redis.url })
  onTestFinished(() => logs.close())
  return () => logs.open()
}

const STORES = [
  ['the embedded store', embedded],
  ['Redis', inRedis],
] as const

const HELD = { model: 'held/m', messages: HELLO, stream: true as const }
const KEY = { 'idempotency-key': 'key' }
const TIED = { 'turnstream-cancel-on-disconnect': 'true' }

/** Everything but when it was: a turn of another time is another turn. */
function saidIn(text: string): string {
  return text.replaceAll(/"created":\d+/g, '"created":0')
}

/** A stream of which the first word has arrived. */
async function begun(server: TestServer, headers: Record<string, string> = KEY) {
  const next = server.held.nextCall()
  const asked = clientOf(server).chat.completions.create(HELD, { headers })
  const running = await next
  running.say('One ')
  const chunks = (await asked)[Symbol.asyncIterator]()
  let text = ''
  while (text === '') text += (await chunks.next()).value?.choices[0]?.delta.content ?? ''
  return { running, chunks, text }
}

/** What the rest of a stream says, and how it breaks off if it does. */
async function restOf(chunks: AsyncIterator<ChatCompletionChunk>) {
  let text = ''
  try {
    for (;;) {
      const { done, value } = await chunks.next()
      if (done === true) return { text }
      text += value.choices[0]?.delta.content ?? ''
    }
  } catch (error) {
    return { text, error }
  }
}

describe.each(STORES)('on %s', (_name, store) => {
  test.each([
    'text',
    'text-then-tool-call',
    'parallel-calls-interleaved',
    'reasoning-content',
    'refusal',
    'error-in-a-call',
  ])('%s is answered as from memory, streamed and complete', async (name) => {
    const kept = await stage('openai-chat', fixtures('openai-chat', name), {
      log: await store()(),
    })
    const passing = await stage('openai-chat', fixtures('openai-chat', name))
    for (const stream of [true, false]) {
      const headers = { 'idempotency-key': `stream-${stream}` }
      const [one, other] = await Promise.all(
        [kept, passing].map(({ server }) => post(server, { ...ASK, stream }, headers)),
      )
      expect(one?.status).toBe(other?.status)
      expect(saidIn(one?.text ?? '')).toBe(saidIn(other?.text ?? 'nothing'))
    }
    expect(kept.server.errors).toEqual([])
  })

  test('an abandoned turn continues and is complete after a restart', async () => {
    const open = store()
    const first = await startServer({ log: await open() })
    const { running, chunks } = await begun(first)
    await chunks.return?.()
    running.say('two')
    running.finish()
    await sealed(first.log, 'key')
    const told = await post(first, HELD, KEY)
    await first.close()
    await first.log.close()
    const second = await startServer({ log: await open() })
    expect((await post(second, HELD, KEY)).text).toBe(told.text)
    expect(told.text).toContain('"content":"two"')
    const whole = await clientOf(second).chat.completions.create(
      { ...HELD, stream: false },
      { headers: KEY },
    )
    expect(whole.choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: 'One two' },
    })
    expect(second.held.calls).toEqual([])
  })

  test('a server that stops in the middle reports it, and so does the next one', async () => {
    const open = store()
    const first = await startServer({ log: await open() })
    const { chunks } = await begun(first)
    const [rest] = await Promise.all([restOf(chunks), first.close()])
    expect(rest.error).toBeInstanceOf(APIError)
    await first.log.close()
    const second = await startServer({ log: await open() })
    const frames = dataOf((await post(second, HELD, KEY)).text)
    expect(frames.join()).toContain('"content":"One "')
    expect(JSON.parse(frames.at(-2) ?? '')).toMatchObject({ error: { code: 'SERVER_SHUTDOWN' } })
    expect(frames.at(-1)).toBe('[DONE]')
    const { json } = await call(second, 'GET /api/v2/runs/key')
    expect(json).toMatchObject({ status: 'error', error: { code: 'SERVER_SHUTDOWN' } })
  })

  test('a client tied to its turn cancels it by disconnecting', async () => {
    const server = await startServer({ log: await store()() })
    const { chunks, running } = await begun(server, { ...KEY, ...TIED })
    await chunks.return?.()
    await sealed(server.log, 'key')
    expect(await server.log.getTurn('key')).toMatchObject({ status: 'aborted' })
    expect(running.signal.aborted).toBe(true)
  })

  test('a thread continues at once with its history and metadata', async () => {
    const server = await startServer({ log: await store()() })
    const messages = [
      { role: 'system' as const, content: 'Be brief.' },
      ...HELLO,
      { role: 'assistant' as const, content: 'Hello.' },
      { role: 'user' as const, content: 'And now?' },
    ]
    const { response } = await clientOf(server)
      .chat.completions.create({ model: 'plain/m', messages, user: 'me' })
      .withResponse()
    const threadId = response.headers.get('x-thread-id') ?? ''
    const thread = await call(server, `GET /api/v2/threads/${threadId}`)
    expect(thread.json.metadata).toEqual({ user: 'me' })
    const next = server.held.nextCall()
    const body = { prompt: 'Go on', threadId, providerId: 'held' }
    const submitted = await call(server, 'POST /api/v2/submit', { body })
    expect([submitted.status, submitted.json]).toMatchObject([202, { threadId }])
    const { request } = await next
    const texts = request.input.map((item) => ('content' in item ? item.content : item.type))
    expect(texts).toEqual(['Be brief.', 'Hello', 'Hello.', 'And now?', 'Hello, world.', 'Go on'])
  })
})

describe('two gateways on one Redis', () => {
  async function pair() {
    const open = inRedis()
    return [
      await startServer({ log: await open(), instance: 'one' }),
      await startServer({ log: await open(), instance: 'other' }),
    ] as const
  }

  test('serve one running turn to clients of both', async () => {
    const [one, other] = await pair()
    const { running, chunks, text } = await begun(one)
    const there = post(other, HELD, KEY)
    running.say('two')
    running.finish()
    const rest = await restOf(chunks)
    expect(`${text}${rest.text}`).toBe('One two')
    const frames = dataOf((await there).text)
    const deltas = frames.slice(0, -1).map((frame) => JSON.parse(frame).choices[0]?.delta.content)
    expect(deltas.join('')).toBe('One two')
    expect(other.held.calls).toEqual([])
  })

  test("cancel each other's turns and notify the client", async () => {
    const [one, other] = await pair()
    const { chunks } = await begun(one)
    const stopped = await call(other, 'POST /api/v2/runs/key/cancel', { body: {} })
    expect(stopped.json).toEqual({ cancelled: true })
    expect(await restOf(chunks)).toMatchObject({ error: { code: 'ABORTED' } })
  })
})
