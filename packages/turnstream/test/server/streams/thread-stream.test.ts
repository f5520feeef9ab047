import { describe, expect, test } from 'vitest'
import { type FakeClock, fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { responseDone } from '../../../../conformance/src/turn-log/texts.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { HEADERS } from '../../../../core/src/protocol/names.ts'
import { MemoryLog } from '../../../src/server.ts'
import { codeOf, get, RawClient } from './raw-client.ts'
import { createTurn, openLog, STORES, serve } from './server.ts'
import { outputsOf, recordsOf } from './turns.ts'
import { OutputView, readInto } from './views.ts'

const PATH = '/xapi/threads/thread/stream'

/** Writes a whole turn of the thread. */
async function writeTurn(log: TurnLog, turnId: string): Promise<void> {
  const lease = await createTurn(log, turnId)
  for (const record of recordsOf(turnId, 'processed').slice(0, -1)) {
    await appendTo(log, lease, 'processed', [record])
  }
  await endTurn(log, lease)
}

async function endTurn(log: TurnLog, lease: Awaited<ReturnType<typeof createTurn>>) {
  const { turnId } = lease
  const records = recordsOf(turnId, 'processed')
  const data = responseDone(turnId, 1)
  await appendTo(log, lease, 'events', [{ seq: 1, data }], { seal: true })
  await appendTo(log, lease, 'processed', records.slice(-1), { seal: true })
}

/** One view for each turn, since their items have the same names. */
class ThreadView {
  readonly turns = new Map<string, OutputView>()

  read(bytes: Uint8Array | string): string {
    return readInto({ take: (event) => this.#take(event), seen: undefined }, bytes)
  }

  #take(event: Parameters<OutputView['take']>[0]): void {
    const { turnId } = JSON.parse(event.data)
    // What is appended names only its item: it belongs to the turn under way, which is the last.
    const id = turnId ?? [...this.turns.keys()].at(-1)
    const view = this.turns.get(id) ?? new OutputView(outputsOf(id))
    this.turns.set(id, view)
    view.take(event)
  }

  get seen(): Record<string, unknown> {
    return Object.fromEntries([...this.turns].map(([turnId, { seen }]) => [turnId, seen]))
  }
}

function stateOf(turnId: string): unknown[] {
  const view = new OutputView(outputsOf(turnId))
  for (const output of outputsOf(turnId)) {
    view.take({ event: '', id: '', data: JSON.stringify(output) })
  }
  return view.seen
}

function lastIdOf(turnId: string): string {
  return `${turnId}/1-${outputsOf(turnId).length}`
}

/** Reads until the client has the end of this turn. */
async function untilEndOf(client: RawClient, turnId: string, clock?: FakeClock): Promise<void> {
  const last = `id: ${lastIdOf(turnId)}\n`
  const isThere = ({ body }: RawClient) => body.includes(last) && body.toString().endsWith('\n\n')
  await (clock === undefined ? client.until(isThere) : client.untilIn(clock, isThere))
}

describe('a thread is one stream', () => {
  test.each(STORES)('W5 of all its turns, past and future (%s)', async (store) => {
    const clock = fakeClock(1000)
    const log = await openLog(store)
    await writeTurn(log, 'one')
    const { port } = await serve(log, { clock })
    const client = await RawClient.open(port, PATH)
    await untilEndOf(client, 'one')
    // Made as another process makes it: nobody tells.
    await writeTurn(log, 'two')
    await untilEndOf(client, 'two', clock)
    await writeTurn(log, 'three')
    await untilEndOf(client, 'three', clock)
    const view = new ThreadView()
    expect(view.read(client.body)).toBe(lastIdOf('three'))
    expect(view.seen).toEqual({
      one: stateOf('one'),
      two: stateOf('two'),
      three: stateOf('three'),
    })
    client.close()
  })

  test('W5 every cursor has the form <turnId>/<offset>', async () => {
    const log = new MemoryLog()
    await writeTurn(log, 'one')
    await writeTurn(log, 'two')
    const { port } = await serve(log)
    const client = await RawClient.open(port, PATH)
    await untilEndOf(client, 'two')
    const ids = client.body.toString().matchAll(/^id: (.*)$/gm)
    expect([...ids].map(([, id]) => id)).toEqual(['0-0', lastIdOf('one'), lastIdOf('two')])
    expect(client.head?.headers).toMatchObject({
      'x-thread-id': 'thread',
      'cache-control': 'no-cache, no-transform',
    })
    client.close()
  })

  test('that waits for the first turn', async () => {
    const clock = fakeClock(1000)
    const log = new MemoryLog()
    await log.putThread({ threadId: 'thread' })
    const { port } = await serve(log, { clock })
    const client = await RawClient.open(port, PATH)
    await client.until(({ body }) => body.length > 0)
    await writeTurn(log, 'one')
    await untilEndOf(client, 'one', clock)
    expect(client.body.includes('resync')).toBe(false)
    client.close()
  })

  test('that reads long threads page by page in order', async () => {
    const log = new MemoryLog()
    const turnIds = Array.from({ length: 120 }, (_, index) => `turn-${index}`)
    for (const turnId of turnIds) await endTurnOf(log, turnId)
    const { port } = await serve(log)
    const client = await RawClient.open(port, PATH)
    await client.until(({ events }) => events.length === turnIds.length)
    expect(client.events.map(({ data }) => JSON.parse(data).turnId)).toEqual(turnIds)
    client.close()
  })
})

async function endTurnOf(log: TurnLog, turnId: string): Promise<void> {
  const lease = await createTurn(log, turnId)
  const [last] = recordsOf(turnId, 'processed').slice(-1)
  await appendTo(log, lease, 'events', [{ seq: 1, data: responseDone(turnId, 1) }], { seal: true })
  await appendTo(log, lease, 'processed', [{ seq: 1, data: last?.data ?? '' }], { seal: true })
}

describe.each(['snapshot', 'append'])('resumed (%s)', (encoding) => {
  const path = `${PATH}?encoding=${encoding}`

  /** A thread of three turns, with a reader that has followed it record by record. */
  async function followedThread(log: TurnLog, port: number, clock: FakeClock): Promise<string[]> {
    const client = await RawClient.open(port, path)
    await client.until(({ body }) => body.length > 0)
    for (const turnId of ['one', 'two', 'three']) {
      const lease = await createTurn(log, turnId)
      for (const [index, record] of recordsOf(turnId, 'processed').slice(0, -1).entries()) {
        await appendTo(log, lease, 'processed', [record])
        const id = `id: ${turnId}/1-${index + 1}\n`
        await client.untilIn(clock, ({ body }) => body.includes(id))
      }
      await endTurn(log, lease)
      await untilEndOf(client, turnId)
    }
    const frames = client.body.toString().split('\n\n').slice(0, -1)
    client.close()
    return frames.map((frame) => `${frame}\n\n`)
  }

  test('after any frame, it continues exactly there', async () => {
    const log = new MemoryLog()
    await log.putThread({ threadId: 'thread' })
    const clock = fakeClock(1000)
    const { port } = await serve(log, { clock, heartbeatMs: 1e9 })
    const frames = await followedThread(log, port, clock)
    expect(frames.length).toBe(2 + 3 * outputsOf('one').length)
    for (let cut = 1; cut < frames.length; cut++) {
      const view = new ThreadView()
      const cursor = view.read(frames.slice(0, cut).join(''))
      const headers = cursor === '' ? {} : { [HEADERS.lastEventId]: cursor }
      const client = await RawClient.open(port, path, { headers })
      await untilEndOf(client, 'three')
      view.read(client.body)
      expect(client.body.includes('resync')).toBe(false)
      expect(view.seen).toEqual({
        one: stateOf('one'),
        two: stateOf('two'),
        three: stateOf('three'),
      })
      client.close()
    }
  }, 60_000)
})

describe('a cursor', () => {
  test("may come from the thread's history", async () => {
    const log = new MemoryLog()
    await writeTurn(log, 'one')
    await writeTurn(log, 'two')
    const { offset } = await log.snapshot('one')
    const { port } = await serve(log)
    const client = await RawClient.open(port, `${PATH}?from=one/${offset}`)
    await untilEndOf(client, 'two')
    const turnIds = client.events.map(({ data }) => JSON.parse(data).turnId)
    expect(new Set(turnIds)).toEqual(new Set(['two']))
    client.close()
  })

  test('may name a turn whose id has slashes and other special characters', async () => {
    const log = new MemoryLog()
    await writeTurn(log, 'zug/ä')
    await writeTurn(log, 'two')
    const { port } = await serve(log)
    const cursor = lastIdOf('zug/ä')
    for (const request of [
      // As a browser sends what it was given: in UTF-8.
      { path: PATH, headers: { 'last-event-id': cursor } },
      { path: `${PATH}?from=${encodeURIComponent(cursor)}`, headers: {} },
    ]) {
      const client = await RawClient.open(port, request.path, { headers: request.headers })
      await untilEndOf(client, 'two')
      expect(client.body.toString()).toContain(`id: ${cursor}\n\n`)
      expect(client.body.includes('resync')).toBe(false)
      client.close()
    }
  })

  test.each(['x', 'one', 'one/', 'one/x', '/1-1', '1-1', ''])('"%s" is refused', async (cursor) => {
    const log = new MemoryLog()
    await writeTurn(log, 'one')
    const { port } = await serve(log)
    const answer = await get(port, `${PATH}?from=${cursor}`)
    expect(answer.status).toBe(400)
    expect(codeOf(answer.body)).toBe('CURSOR_INVALID')
  })

  test.each([
    { name: 'of an unknown turn', from: 'none/1-2' },
    { name: 'of a turn of another thread', from: 'stranger/1-1' },
  ])('$name restarts the thread', async ({ from }) => {
    const log = new MemoryLog()
    await writeTurn(log, 'one')
    await createTurn(log, 'stranger', 'another')
    const { port } = await serve(log)
    const client = await RawClient.open(port, `${PATH}?from=${from}`)
    await untilEndOf(client, 'one')
    const [first] = client.events
    expect(first).toMatchObject({ event: 'resync', data: '{"reason":"foreign","offset":"0-0"}' })
    client.close()
  })

  test('of another incarnation of a turn restarts that turn', async () => {
    const log = new MemoryLog()
    await writeTurn(log, 'one')
    await writeTurn(log, 'two')
    const { port } = await serve(log)
    const client = await RawClient.open(port, `${PATH}?from=two/9-3`)
    await untilEndOf(client, 'two')
    const [first, ...rest] = client.events
    expect(first).toMatchObject({
      event: 'resync',
      data: '{"reason":"foreign","offset":"two/0-0"}',
    })
    expect(rest.map(({ data }) => JSON.parse(data))).toEqual(stateOf('two'))
    client.close()
  })
})
