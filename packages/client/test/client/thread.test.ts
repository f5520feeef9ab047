/** What a thread shows, with responses in an order that the test decides. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { createClient, type Live } from '../../src/index.ts'
import { FakePage } from './support.ts'

const HISTORY = {
  turns: [
    {
      ...{ turnId: 'old', offset: '1-2' },
      outputs: [
        { type: 'turn_started', turnId: 'old', threadId: 'h' },
        { type: 'turn_complete', turnId: 'old', threadId: 'h', status: 'complete' },
      ],
    },
  ],
}
const BUSY = { error: { code: 'THREAD_BUSY', message: 'A turn is running.' } }
const UNKNOWN = { error: { code: 'THREAD_UNKNOWN', message: 'No such thread.' } }

const accept = () => Response.json({}, { status: 202 })
const refuse = () => Response.json(BUSY, { status: 409 })
const isUnknown = () => Response.json(UNKNOWN, { status: 404 })

function setUp() {
  const clock = fakeClock(1_000_000)
  const page = new FakePage()
  const pending: { readonly name: string; readonly answer: (response: Response) => void }[] = []
  const client = createClient({
    ...{ baseUrl: 'http://x', clock, page, random: () => 1 },
    fetch: (url, init) =>
      new Promise<Response>((resolve, reject) => {
        const { pathname, search } = new URL(typeof url === 'string' ? url : '')
        pending.push({ name: `${init?.method ?? 'GET'} ${pathname}${search}`, answer: resolve })
        init?.signal?.addEventListener('abort', () => reject(new TypeError('Load failed')))
      }),
  })
  /** Lets everything happen that needs no time. */
  const settle = async () => {
    for (let count = 0; count < 5; count++) await clock.advance(0)
    page.draw()
  }
  const watch = <T extends Live<unknown>>(live: T): T => {
    onTestFinished(live.subscribe(() => {}))
    return live
  }
  const names = () => pending.map(({ name }) => name)
  /** Answers the oldest request in flight that starts with this. */
  const answer = async (start: string, response: Response) => {
    await settle()
    const at = pending.findIndex(({ name }) => name.startsWith(start))
    if (at < 0) throw new Error(`${start} is not one of: ${names().join(', ')}`)
    pending.splice(at, 1)[0]?.answer(response)
    await settle()
  }
  const follow = async () => {
    const thread = watch(client.thread('h'))
    await settle()
    return thread
  }
  const submit = () => client.submit({ prompt: 'Hi', threadId: 'h', turnId: 't' })
  return { client, clock, page, names, settle, answer, follow, watch, submit }
}

const GET_PAGE = 'GET /xapi/threads/h?'
const GET_STREAM = 'GET /xapi/threads/h/stream'
const SUBMIT = 'POST /api/v2/submit'

describe('a thread on a hidden page', () => {
  test('releases its stream, and continues from its cursor when the page is shown', async () => {
    const { page, names, settle, answer, follow } = setUp()
    const thread = await follow()
    await answer(GET_PAGE, Response.json(HISTORY))
    expect(names()).toEqual([expect.stringContaining(GET_STREAM)])
    const stream = names()[0]
    page.hide()
    await settle()
    page.show()
    await settle()
    expect(names()).toEqual([stream, stream])
    expect(stream).toContain(encodeURIComponent('old/1-2'))
    expect(thread.getSnapshot().turns).toMatchObject([{ turnId: 'old' }])
  })

  test('loads its history without a stream, which starts when the page is shown', async () => {
    const { page, names, settle, answer, follow } = setUp()
    page.hidden = true
    const thread = await follow()
    await answer(GET_PAGE, Response.json(HISTORY))
    expect(thread.getSnapshot().turns).toMatchObject([{ turnId: 'old' }])
    expect(names()).toEqual([])
    page.show()
    await settle()
    expect(names()).toEqual([expect.stringContaining(GET_STREAM)])
  })
})

describe('a prompt that is submitted while the history loads', () => {
  test('stays when it has loaded', async () => {
    const { answer, follow, submit } = setUp()
    const thread = await follow()
    submit()
    await answer(GET_PAGE, Response.json(HISTORY))
    expect(thread.getSnapshot().turns).toMatchObject([
      { turnId: 'old', status: 'complete' },
      { turnId: 't', status: 'running', items: [{ content: 'Hi' }] },
    ])
    await answer(SUBMIT, refuse())
    expect(thread.getSnapshot().turns[1]).toMatchObject({
      ...{ status: 'error', items: [{ content: 'Hi' }], end: { error: BUSY.error } },
    })
  })

  test('is shown as the gateway has it', async () => {
    const { answer, follow, submit } = setUp()
    const thread = await follow()
    submit()
    const started = { type: 'turn_started', turnId: 't', threadId: 'h' }
    const turn = { turnId: 't', offset: '1-1', outputs: [started] }
    await answer(GET_PAGE, Response.json({ turns: [turn, ...HISTORY.turns] }))
    expect(thread.getSnapshot().turns).toMatchObject([{ turnId: 'old' }, { turnId: 't', started }])
  })
})

describe('a thread that does not exist yet', () => {
  test.each(['before', 'after'])('is loaded again when 404 arrives %s the 202', async (order) => {
    const { answer, clock, follow, names, submit } = setUp()
    const thread = await follow()
    submit()
    if (order === 'after') await answer(SUBMIT, accept())
    await answer(GET_PAGE, isUnknown())
    expect(thread.getSnapshot().connection.status).toBe('connecting')
    if (order === 'before') await answer(SUBMIT, accept())
    await clock.advance(250)
    await answer(GET_PAGE, Response.json(HISTORY))
    expect(names()).toEqual([expect.stringContaining(GET_STREAM)])
  })

  test('is unknown as long as the gateway refuses its first turn', async () => {
    const { answer, follow, submit } = setUp()
    const thread = await follow()
    await answer(GET_PAGE, isUnknown())
    expect(thread.getSnapshot().connection.status).toBe('failed')
    submit()
    await answer(SUBMIT, refuse())
    expect(thread.getSnapshot()).toMatchObject({
      ...{ connection: { status: 'failed' }, turns: [{ status: 'error' }] },
    })
  })

  test('is tried again when the page wakes: another page may have created it', async () => {
    const { answer, client, follow, names, page, settle } = setUp()
    const thread = await follow()
    await answer(GET_PAGE, isUnknown())
    const unsubscribe = client.thread('h').subscribe(() => {})
    await answer(GET_PAGE, isUnknown())
    unsubscribe()
    expect(thread.getSnapshot().connection.status).toBe('failed')
    expect(names()).toEqual([])
    page.wake()
    page.wake()
    await settle()
    expect(names()).toHaveLength(1)
    await answer(GET_PAGE, Response.json(HISTORY))
    expect(thread.getSnapshot().turns).toHaveLength(1)
  })
})

describe('a submit', () => {
  test('that is refused ends its turn with the error', async () => {
    const { answer, client, submit } = setUp()
    const turn = submit()
    const failures = Promise.allSettled([turn.accepted(), turn.done()])
    await answer(SUBMIT, refuse())
    expect(await failures).toMatchObject([{ reason: BUSY.error }, { reason: BUSY.error }])
    expect(client.turn('t').getSnapshot()).toMatchObject({
      turn: { status: 'error', items: [{ content: 'Hi' }], end: { error: BUSY.error } },
      connection: { status: 'failed', cause: BUSY.error },
    })
  })

  test('that is cancelled before it is answered is aborted', async () => {
    const { answer, client, follow, submit, watch } = setUp()
    const turn = watch(submit())
    const thread = await follow()
    const cancelled = client.cancel('t')
    await answer('POST /api/v2/runs/t/cancel', isUnknown())
    await cancelled
    const shown = { status: 'aborted', items: [{ content: 'Hi' }] }
    expect(turn.getSnapshot().turn).toMatchObject(shown)
    expect(thread.getSnapshot().turns).toMatchObject([shown])
  })
})

test('a running turn that has expired is loaded again, once', async () => {
  const { answer, clock, follow, names } = setUp()
  const thread = await follow()
  const [old] = HISTORY.turns
  const started = { type: 'turn_started', turnId: 't', threadId: 'h' }
  const running = { turnId: 't', offset: '1-1', outputs: [started] }
  await answer(GET_PAGE, Response.json({ turns: [running, old] }))
  expect(thread.getSnapshot().turns).toMatchObject([{}, { turnId: 't', status: 'running' }])
  const trimmed = ': heartbeat every 1000 ms\n\nevent: resync\ndata: {"reason":"trimmed"}\n\n'
  await answer(GET_STREAM, new Response(trimmed))
  await clock.advance(250)
  await answer(GET_PAGE, Response.json({ turns: [{ ...running, outputs: [] }, old] }))
  expect(thread.getSnapshot().turns).toMatchObject([{ turnId: 'old' }])
  await answer(GET_STREAM, new Response(trimmed))
  await clock.advance(500)
  expect(names()).toEqual([expect.stringContaining(GET_STREAM)])
})

test('fields of a page that are undefined are not sent', async () => {
  const { client, names } = setUp()
  void client.threads({ limit: 2, cursor: undefined })
  void client.threads({})
  await expect.poll(names).toEqual(['GET /api/v2/threads?limit=2', 'GET /api/v2/threads'])
})

/** A page of turns `first` to `last`, as the gateway lists them. */
function pageOf(first: number, last: number, nextCursor?: string) {
  const turns = Array.from({ length: last - first + 1 }, (_, at) => {
    const ids = { turnId: `t${last - at}`, threadId: 'h' }
    const item = { type: 'message', itemId: `${ids.turnId}:1`, content: 'Text', origin: 'agent' }
    return {
      ...{ turnId: ids.turnId, offset: '1-3' },
      outputs: [
        { type: 'turn_started', ...ids },
        { ...item, ...ids, status: 'complete' },
        { type: 'turn_complete', ...ids, status: 'complete' },
      ],
    }
  })
  return Response.json({ turns, ...(nextCursor !== undefined && { nextCursor }) })
}

/** A stream that this page cannot continue. */
const outOfSync = () =>
  new Response(': heartbeat every 15000 ms\nid: t30/1-3\n\nevent: append\ndata: {}\n\n')

describe('a thread that starts over', () => {
  async function startOver(again: Response) {
    const all = setUp()
    const { answer, clock, follow } = all
    const thread = await follow()
    await answer(GET_PAGE, pageOf(11, 30, 'older'))
    const loaded = thread.loadOlder()
    await answer(`${GET_PAGE}first=newest&cursor=older`, pageOf(1, 10))
    await loaded
    const before = thread.getSnapshot().turns
    expect(before).toHaveLength(30)
    await answer(GET_STREAM, outOfSync())
    await clock.advance(250)
    await answer(GET_PAGE, again)
    return { ...all, thread, before }
  }

  test('keeps the older turns, and the identity of everything that is equal', async () => {
    const { before, thread } = await startOver(pageOf(12, 31, 'page'))
    const { turns, hasOlder } = thread.getSnapshot()
    expect(turns.map(({ turnId }) => turnId)).toEqual(
      Array.from({ length: 31 }, (_, at) => `t${at + 1}`),
    )
    expect(turns.filter((turn, at) => turn === before[at])).toHaveLength(30)
    expect(hasOlder).toBe(false)
  })

  test('shows only the page when it does not meet what was shown', async () => {
    const { thread } = await startOver(pageOf(41, 60, 'page'))
    const { turns, hasOlder } = thread.getSnapshot()
    expect(turns.map(({ turnId }) => turnId).slice(0, 2)).toEqual(['t41', 't42'])
    expect([turns.length, hasOlder]).toEqual([20, true])
  })

  test('keeps a turn that is submitted here and not answered yet', async () => {
    const { answer, clock, follow, submit } = setUp()
    const thread = await follow()
    await answer(GET_PAGE, pageOf(1, 2))
    submit()
    await answer(GET_STREAM, outOfSync())
    await clock.advance(250)
    await answer(SUBMIT, accept())
    await answer(GET_PAGE, pageOf(1, 2))
    expect(thread.getSnapshot().turns.map(({ turnId }) => turnId)).toEqual(['t1', 't2', 't'])
  })
})
