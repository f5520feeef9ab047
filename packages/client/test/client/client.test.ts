import { describe, expect, test, vi } from 'vitest'
import type * as z from 'zod'
import { eventually } from '../../../../test/eventually.ts'
import type { submitBodySchema } from '../../../turnstream/src/server/routes/submit.ts'
import {
  finishedTurn,
  heldTurn,
  startServer,
  type TestServer,
} from '../../../turnstream/test/server/support.ts'
import { end, answer as say, call as toolCall } from '../../../turnstream/test/turns/payloads.ts'
import { puppet } from '../../../turnstream/test/turns/rig.ts'
import { tool } from '../../../turnstream/test/turns/some-tools.ts'
import {
  ClientError,
  type ClientOptions,
  createClient,
  type SubmitRequest,
  type ThreadState,
  type TurnState,
} from '../../src/index.ts'
import { cutAfter } from './support.ts'

/** A client whose requests a test may watch, and whose reconnects do not wait. */
function clientOf(server: TestServer, options: ClientOptions = {}) {
  return createClient({ baseUrl: server.url, random: () => 0, ...options })
}

function textsOf({ turns }: ThreadState): (string | undefined)[][] {
  return turns.map(({ items }) => items.map(({ content }) => content))
}

/** The requests of a client, as `GET /path`. */
function recordRequests(answer: typeof fetch = (...args) => fetch(...args)) {
  const requests: string[] = []
  const recording: typeof fetch = (input, init) => {
    const { pathname, search } = new URL(typeof input === 'string' ? input : '')
    requests.push(`${init?.method} ${pathname}${search}`)
    return answer(input, init)
  }
  return { requests, fetch: recording }
}

/** Longer than every threshold of the processor, which emits it at once. */
const LONG = 'All work and no play makes a long text. '.repeat(250)

const THANKS = [...say('2', 'Thanks.'), end()]

describe('a submitted turn', () => {
  test('is shown at once, then streams to its end', async () => {
    const server = await startServer()
    const turn = clientOf(server).submit({ prompt: 'Hi', model: 'plain/m' })
    const optimistic = turn.getSnapshot()
    expect(optimistic.turn).toMatchObject({ status: 'running', items: [{ content: 'Hi' }] })
    expect(optimistic.connection).toEqual({ status: 'idle' })
    const states: TurnState[] = []
    for await (const state of turn) states.push(state)
    expect(states[0]?.turn).toBe(optimistic.turn)
    const last = states.at(-1)
    expect(last?.connection).toEqual({ status: 'ended' })
    expect(last?.turn?.status).toBe('complete')
    expect(last?.turn?.items).toMatchObject([
      { itemId: optimistic.turn?.items[0]?.itemId, content: 'Hi', status: 'complete' },
      { content: 'Hello, world.', status: 'complete' },
    ])
    expect(await turn.done()).toBe(turn.getSnapshot())
  })

  test('is sent again when the response is lost, and exists once', async () => {
    const server = await startServer()
    let lost = 0
    const { requests, fetch: recording } = recordRequests(async (input, init) => {
      const response = await fetch(input, init)
      if (init?.method !== 'POST' || lost === 2) return response
      lost += 1
      throw new TypeError('Load failed')
    })
    const client = clientOf(server, { fetch: recording })
    const turn = client.submit({ prompt: 'Hi', model: 'plain/m', threadId: 'h' })
    await turn.accepted()
    expect(requests.filter((request) => request.startsWith('POST'))).toHaveLength(3)
    expect((await server.log.listTurns('h', {})).items).toHaveLength(1)
    expect((await turn.done()).turn?.status).toBe('complete')
  })

  test('that the gateway refuses fails, and is marked in its thread', async () => {
    const server = await startServer()
    const client = clientOf(server)
    await client.submit({ prompt: 'Hi', threadId: 'h', model: 'plain/m' }).done()
    const thread = client.thread('h')
    const unsubscribe = thread.subscribe(() => {})
    const turn = client.submit({ prompt: 'Again', threadId: 'h', model: 'nobody/m' })
    expect(thread.getSnapshot().turns.at(-1)?.items[0]?.content).toBe('Again')
    await expect(turn.accepted()).rejects.toMatchObject({ code: 'MODEL_UNKNOWN', status: 404 })
    await expect(turn.done()).rejects.toBeInstanceOf(ClientError)
    expect(turn.getSnapshot().connection).toMatchObject({
      ...{ status: 'failed', cause: { code: 'MODEL_UNKNOWN' } },
    })
    const refused = thread.getSnapshot().turns.at(-1)
    expect(refused).toMatchObject({ status: 'error', end: { error: { code: 'MODEL_UNKNOWN' } } })
    unsubscribe()
  })

  test('several messages have the ids that the gateway gives them', async () => {
    const server = await startServer()
    const input = (['user', 'system', 'user'] as const).map((origin) => {
      return { type: 'message', origin, content: `of ${origin}` } as const
    })
    const turn = clientOf(server).submit({ input, model: 'plain/m' })
    const ids = turn.getSnapshot().turn?.items.map(({ itemId }) => itemId)
    const { turn: ended } = await turn.done()
    expect(ended?.items.map(({ itemId }) => itemId).slice(0, 3)).toEqual(ids)
    expect(ended?.items).toHaveLength(4)
  })
})

test('V14 a submit with replaces drops that turn and the later ones', async () => {
  const server = await startServer()
  for (const turnId of ['a', 'b', 'c']) {
    await finishedTurn(server, { threadId: 'h', turnId, model: 'plain/m' })
  }
  const client = clientOf(server)
  const thread = client.thread('h')
  const unsubscribe = thread.subscribe(() => {})
  await eventually(() => expect(thread.getSnapshot().turns).toHaveLength(3))
  const request = { prompt: 'Again', threadId: 'h', turnId: 'd', replaces: 'b' }
  await client.submit({ ...request, model: 'plain/m' }).done()
  await eventually(() => {
    expect(thread.getSnapshot().turns.map(({ turnId }) => turnId)).toEqual(['a', 'd'])
  })
  unsubscribe()
})

test('the messages of a submit may have parts', async () => {
  const server = await startServer()
  const content = [
    { type: 'text', text: 'One' },
    { type: 'text', text: 'two' },
  ] as const
  const input = [{ type: 'message', origin: 'user', content }] as const
  const turn = clientOf(server).submit({ input, model: 'plain/m' })
  const optimistic = turn.getSnapshot().turn?.items[0]?.content
  expect((await turn.done()).turn?.items[0]?.content).toBe(optimistic)
})

type Field = Exclude<keyof z.input<typeof submitBodySchema>, 'runId'>
type IsComplete = [Field, keyof SubmitRequest] extends [keyof SubmitRequest, Field] ? true : false

test('a submit has every field of the route, and no other', () => {
  // Does not compile when a field is missing.
  const isComplete: IsComplete = true
  expect(isComplete).toBe(true)
})

describe('a connection that is cut', () => {
  test('resumes with the cursor, and loses and repeats nothing', async () => {
    const server = await startServer()
    const { call, turnId } = await heldTurn(server)
    let cuts = 0
    const { requests, fetch: cutting } = recordRequests(async (input, init) => {
      const response = await fetch(input, init)
      cuts += 1
      return cuts > 3 ? response : await cutAfter(15_000 * cuts, response)
    })
    const turn = clientOf(server, { fetch: cutting }).turn(turnId)
    const lengths: number[] = []
    const statuses = new Set<string>()
    const unsubscribe = turn.subscribe(() => {
      const { turn: view, connection } = turn.getSnapshot()
      lengths.push(view?.items[1]?.content.length ?? 0)
      statuses.add(connection.status)
    })
    for (let count = 0; count < 10; count++) {
      call.say(LONG)
      await eventually(() => expect(lengths.at(-1)).toBeGreaterThan(count * LONG.length))
    }
    call.finish()
    const { turn: ended } = await turn.done()
    expect(ended?.items[1]).toMatchObject({ content: LONG.repeat(10), status: 'complete' })
    expect(lengths).toEqual(lengths.toSorted((a, b) => a - b))
    expect(cuts).toBe(4)
    expect(requests.slice(1).every((request) => /from=1-\d+$/.test(request))).toBe(true)
    expect([...statuses]).toEqual(['connecting', 'live', 'ended'])
    unsubscribe()
  })

  test('before its turn exists does not matter: a turn without a token can be joined', async () => {
    const server = await startServer()
    const { call, turnId } = await heldTurn(server)
    const done = clientOf(server).turn(turnId).done()
    call.finish()
    expect((await done).turn?.status).toBe('complete')
  })

  test('that ended while it was away is complete: 204', async () => {
    const server = await startServer()
    const { turnId } = await finishedTurn(server, { model: 'plain/m' })
    const client = clientOf(server)
    const turn = client.turn(turnId)
    const { turn: view } = await turn.done()
    expect(view?.end).toMatchObject({ type: 'turn_complete', status: 'complete' })
    expect(await turn.done()).toBe(turn.getSnapshot())
  })
})

describe('a thread', () => {
  test('shows its newest turns, loads older ones, and follows what others submit', async () => {
    const server = await startServer()
    for (let at = 0; at < 22; at++) {
      await finishedTurn(server, { threadId: 'h', prompt: `${at}`, model: 'plain/m' })
    }
    const thread = clientOf(server).thread('h')
    const unsubscribe = thread.subscribe(() => {})
    await eventually(() => expect(thread.getSnapshot().turns).toHaveLength(20))
    const before = thread.getSnapshot()
    expect(before.hasOlder).toBe(true)
    await Promise.all([thread.loadOlder(), thread.loadOlder()])
    const all = thread.getSnapshot()
    expect(all.hasOlder).toBe(false)
    expect(all.turns.slice(2)).toEqual(before.turns)
    expect(all.turns.at(-1)).toBe(before.turns.at(-1))
    await thread.loadOlder()
    await finishedTurn(server, { threadId: 'h', prompt: '22', model: 'plain/m' })
    await eventually(() => expect(thread.getSnapshot().turns.at(-1)?.status).toBe('complete'))
    await eventually(() => expect(thread.getSnapshot().turns).toHaveLength(23))
    const prompts = textsOf(thread.getSnapshot()).map(([prompt]) => prompt)
    expect(prompts).toEqual(Array.from({ length: 23 }, (_, at) => `${at}`))
    unsubscribe()
  })

  test('that does not exist yet is followed once a submit has created it', async () => {
    const server = await startServer()
    const client = clientOf(server)
    const thread = client.thread('new')
    const unsubscribe = thread.subscribe(() => {})
    await eventually(() => expect(thread.getSnapshot().connection.status).toBe('failed'))
    client.submit({ prompt: 'Hi', threadId: 'new', model: 'plain/m' })
    expect(textsOf(thread.getSnapshot())).toEqual([['Hi']])
    await eventually(() => expect(thread.getSnapshot().turns[0]?.status).toBe('complete'))
    expect(textsOf(thread.getSnapshot())).toEqual([['Hi', 'Hello, world.']])
    unsubscribe()
  })

  test('opened right after the submit shows its turn, and is never unknown', async () => {
    const server = await startServer()
    const client = clientOf(server)
    client.submit({ prompt: 'Hi', threadId: 'new', model: 'plain/m' })
    const statuses = new Set<string>()
    for await (const { turns, connection } of client.thread('new')) {
      expect(turns[0]?.items[0]?.content).toBe('Hi')
      statuses.add(connection.status)
      if (turns[0]?.status === 'complete') break
    }
    expect(statuses).not.toContain('failed')
  })

  test('ends when it is deleted', async () => {
    const server = await startServer()
    const client = clientOf(server)
    await client.submit({ prompt: 'Hi', threadId: 'h', model: 'plain/m' }).done()
    const thread = client.thread('h')
    const done = thread.done()
    await eventually(() => expect(thread.getSnapshot().connection.status).toBe('live'))
    await client.delete('h')
    const { connection, turns } = await done
    expect(connection).toMatchObject({ status: 'ended', cause: { code: 'THREAD_UNKNOWN' } })
    expect(turns).toHaveLength(1)
  })

  test('a turn that is deleted while it is read fails', async () => {
    const server = await startServer()
    const { turnId, threadId } = await heldTurn(server)
    const client = clientOf(server)
    const turn = client.turn(turnId)
    const done = turn.done()
    await eventually(() => expect(turn.getSnapshot().turn).toBeDefined())
    await Promise.all([
      expect(done).rejects.toMatchObject({ code: 'TURN_UNKNOWN' }),
      client.delete(threadId),
    ])
  })

  test('lists threads page by page', async () => {
    const server = await startServer()
    for (const threadId of ['a', 'b', 'c']) {
      await finishedTurn(server, { threadId, model: 'plain/m' })
    }
    const client = clientOf(server)
    const { threads, nextCursor = '' } = await client.threads({ limit: 2 })
    const rest = await client.threads({ cursor: nextCursor })
    const ids = [...threads, ...rest.threads].map(({ threadId }) => threadId)
    expect(ids.toSorted()).toEqual(['a', 'b', 'c'])
  })
})

describe('cancel', () => {
  test('stops the turn, from another client too', async () => {
    const server = await startServer()
    const { turnId } = await heldTurn(server)
    const done = clientOf(server).turn(turnId).done()
    await clientOf(server).cancel(turnId, 'enough')
    expect((await done).turn?.status).toBe('aborted')
  })

  test('of a turn that did not reach the gateway stops sending it', async () => {
    const server = await startServer()
    let posts = 0
    const offline: typeof fetch = async (input, init) => {
      if (typeof input !== 'string' || !input.endsWith('/submit')) return fetch(input, init)
      posts += 1
      throw new TypeError('Load failed')
    }
    const client = clientOf(server, { fetch: offline, random: () => 0.01 })
    const turn = client.submit({ prompt: 'Hi', model: 'plain/m' })
    await eventually(() => expect(posts).toBeGreaterThan(2))
    await client.cancel(turn.turnId)
    await expect(turn.done()).rejects.toMatchObject({ code: 'ABORTED' })
    await expect(turn.accepted()).rejects.toMatchObject({ code: 'ABORTED' })
    const before = posts
    await client.threads()
    expect(posts).toBe(before)
  })

  test('of an unknown turn fails', async () => {
    const server = await startServer()
    const cancelled = clientOf(server).cancel('nobody')
    await expect(cancelled).rejects.toMatchObject({ code: 'TURN_UNKNOWN' })
  })
})

describe('tools', () => {
  test('V4 an answer completes the call in its place, and starts the next turn', async () => {
    const asking = puppet([[...toolCall('1', 'look'), end('tool_calls')], THANKS], 'asking')
    const server = await startServer({ more: [asking] })
    const client = clientOf(server)
    const settings = { model: 'asking/m', tools: [{ name: 'look', parameters: {} }] }
    const first = client.submit({ ...settings, prompt: 'Look', threadId: 'h' })
    const { turn } = await first.done()
    const [pending] = turn?.end?.pendingCalls ?? []
    const thread = client.thread('h')
    const unsubscribe = thread.subscribe(() => {})
    await eventually(() => expect(thread.getSnapshot().turns).toHaveLength(1))
    const answers = [{ callId: pending?.callId ?? '', output: { found: true } }]
    const next = client.answer('h', answers, settings)
    await next.done()
    await eventually(() => expect(thread.getSnapshot().turns[1]?.status).toBe('complete'))
    const [made, answered] = thread.getSnapshot().turns
    const card = made?.items.find(({ itemId }) => itemId === pending?.itemId)
    expect(card).toMatchObject({ status: 'complete', toolOutput: { found: true }, success: true })
    expect(answered?.items.map(({ type }) => type)).toEqual(['message'])
    const reloaded = clientOf(server).thread('h')
    const leave = reloaded.subscribe(() => {})
    await eventually(() => expect(reloaded.getSnapshot().turns).toHaveLength(2))
    expect(reloaded.getSnapshot().turns).toEqual(thread.getSnapshot().turns)
    for (const each of [unsubscribe, leave]) each()
  })

  test('V8 a call that needs approval runs when it is given', async () => {
    const asking = puppet([[...toolCall('1', 'delete'), end('tool_calls')], THANKS], 'asking')
    const needing = tool('delete', () => 'deleted', { needsApproval: true })
    const server = await startServer({ tools: [needing], more: [asking] })
    const client = clientOf(server)
    const turn = client.submit({ prompt: 'Delete it', model: 'asking/m' })
    const seen = new Set<string | undefined>()
    for await (const { turn: view } of turn) {
      const card = view?.items.find((item) => item.type === 'tool_call')
      const approval = card?.approval
      const isNew = !seen.has(approval?.status)
      seen.add(approval?.status)
      if (approval?.status === 'requested' && isNew) {
        await client.approve(turn.turnId, approval.id, { approved: true })
      }
    }
    expect([...seen]).toEqual([undefined, 'requested', 'approved'])
    const { turn: view } = turn.getSnapshot()
    expect(view?.items.find(({ type }) => type === 'tool_call')).toMatchObject({
      ...{ status: 'complete', toolOutput: 'deleted', approval: { status: 'approved' } },
    })
  })
})

describe('the store', () => {
  test('has one connection for all who want the same turn, and none when they leave', async () => {
    const server = await startServer()
    const { turnId, call } = await heldTurn(server)
    const { requests, fetch: recording } = recordRequests()
    const client = clientOf(server, { fetch: recording })
    const turn = client.turn(turnId)
    expect(client.turn(turnId)).toBe(turn)
    const listener = vi.fn<() => void>()
    const leave = [turn.subscribe(listener), turn.subscribe(listener)]
    await eventually(() => expect(turn.getSnapshot().turn).toBeDefined())
    const snapshot = turn.getSnapshot()
    expect(turn.getSnapshot()).toBe(snapshot)
    leave[0]?.()
    // As frameworks do when they run an effect twice.
    leave[1]?.()
    leave.push(turn.subscribe(listener))
    await Promise.resolve()
    expect(requests).toHaveLength(1)
    leave.at(-1)?.()
    leave.at(-1)?.()
    await eventually(() => expect(turn.getSnapshot().connection.status).toBe('idle'))
    expect(turn.getSnapshot().turn).toBe(snapshot.turn)
    call.finish()
  })

  test('a loop that is left closes the connection', async () => {
    const server = await startServer()
    const { turnId, call } = await heldTurn(server)
    const turn = clientOf(server).turn(turnId)
    for await (const { turn: view } of turn) if (view !== undefined) break
    await eventually(() => expect(turn.getSnapshot().connection.status).toBe('idle'))
    call.finish()
  })
})
