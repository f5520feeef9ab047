import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { SseConnection } from '../../../src/server/streams/sse-connection.ts'
import type { HeldCall } from '../held-provider.ts'
import { startServer, type TestServer } from '../support.ts'
import { RawClient } from './raw-client.ts'

/*
 * A reader that falls behind, catches up while nothing is said, and is told more: on every route that streams,
 * over a real socket.
 */

/** Small, so that each goes out by itself. */
const PIECE = 'x'.repeat(20_000)

interface Opened {
  readonly client: RawClient
  readonly call: HeldCall
}

async function submitted(server: TestServer): Promise<{ call: HeldCall }> {
  const called = server.held.nextCall()
  const body = { prompt: 'Hi', model: 'held/m', turnId: 'turn', threadId: 'thread' }
  await fetch(`${server.url}/api/v2/submit`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { call: await called }
}

/** Reads a turn that was submitted before. */
const reads = (path: string) => async (server: TestServer) => {
  const { call } = await submitted(server)
  return { call, client: await RawClient.open(portOf(server), path) }
}

/** Begins a turn and reads it. */
const posts = (path: string, body: object) => async (server: TestServer) => {
  const called = server.held.nextCall()
  const text = JSON.stringify(body)
  const headers = { 'content-type': 'application/json', 'content-length': `${text.length}` }
  const client = await RawClient.open(portOf(server), path, { method: 'POST', headers })
  client.socket.write(text)
  return { client, call: await called }
}

const PROMPT = { prompt: 'Hi', model: 'held/m' }
const CHAT = { model: 'held/m', messages: [{ role: 'user', content: 'Hi' }], stream: true }

const ROUTES: Record<string, (server: TestServer) => Promise<Opened>> = {
  'raw events': reads('/api/v2/stream/turn'),
  snapshots: reads('/xapi/turns/turn/stream'),
  appends: reads('/xapi/turns/turn/stream?encoding=append'),
  'a thread': reads('/xapi/threads/thread/stream'),
  'the appends of a thread': reads('/xapi/threads/thread/stream?encoding=append'),
  'several threads': reads('/xapi/streams?threads=thread'),
  'the appends of several threads': reads('/xapi/streams?threads=thread&encoding=append'),
  'a turn of a thread': posts('/xapi/threads/thread/turn', PROMPT),
  'the appends of a turn of a thread': posts('/xapi/threads/thread/turn?encoding=append', PROMPT),
  'a chat': posts('/v1/chat/completions', CHAT),
}

function portOf({ url }: TestServer): number {
  return Number(new URL(url).port)
}

/** What the server has written to its only reader. */
function watchConnection() {
  const spy = vi.spyOn(SseConnection.prototype, 'send')
  onTestFinished(() => spy.mockRestore())
  const { calls, results } = spy.mock
  let counted = 0
  let bytes = 0
  return {
    isFull: () => results.at(-1)?.value === false,
    bytes: () => {
      for (; counted < calls.length; counted++) bytes += calls[counted]?.[0].chunk.length ?? 0
      return bytes
    },
  }
}

/** The last of what was read. */
function tailOf(client: RawClient): () => string {
  let tail = ''
  client.socket.on('data', (piece: Buffer) => {
    tail = `${tail}${piece.toString('latin1')}`.slice(-100_000)
  })
  return () => tail
}

function turnOfTheLoop(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

async function checkReader(open: (server: TestServer) => Promise<Opened>): Promise<void> {
  const sent = watchConnection()
  const server = await startServer({ caps: { maxTurnChars: Infinity } })
  const { client, call } = await open(server)
  const tail = tailOf(client)
  const until = async (text: string) => {
    await client.until(() => tail().includes(text))
  }
  call.say('begin')
  await until('begin')
  client.socket.pause()
  while (!sent.isFull()) {
    call.say(PIECE)
    for (let turns = 0; turns < 5; turns++) await turnOfTheLoop()
  }
  client.socket.resume()
  // Everything was sent, and nothing more will be until something is said.
  await client.until(({ received }) => received >= sent.bytes())
  for (let turns = 0; turns < 50; turns++) await turnOfTheLoop()
  for (const mark of ['first', 'second']) {
    call.say(mark)
    await until(mark)
  }
  call.finish()
  await client.until(() => /turn_complete|response_done|\[DONE\]/.test(tail()))
  expect(server.errors).toEqual([])
  client.close()
}

describe('a reader that falls behind catches up correctly', {
  timeout: 60_000,
}, () => {
  const QUICK = new Set(['raw events', 'a chat'])

  test.each(Object.entries(ROUTES).filter(([name]) => QUICK.has(name)))('%s', async (_, open) => {
    await checkReader(open)
  })

  test.each(Object.entries(ROUTES).filter(([name]) => !QUICK.has(name)))(
    '%s',
    { tags: ['slow'] },
    async (_, open) => {
      await checkReader(open)
    },
  )
})
