import { describe, expect, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { responseDone, turnComplete } from '../../../../conformance/src/turn-log/texts.ts'
import type { Lease, TurnLog } from '../../../../core/src/log/turn-log.ts'
import { HEADERS } from '../../../../core/src/protocol/names.ts'
import { DIALECTS, type Dialect } from './dialects.ts'
import { framesOf, get, RawClient } from './raw-client.ts'
import { createSealed, createTurn, openLog, STORES, serve } from './server.ts'
import { recordsOf } from './turns.ts'
import { readInto, type View } from './views.ts'

const CASES = STORES.flatMap((store) => DIALECTS.map((dialect) => ({ store, dialect })))

function resumed(cursor: string) {
  return cursor === '' ? {} : { headers: { [HEADERS.lastEventId]: cursor } }
}

describe.each(CASES)('$dialect.name of a finished turn ($store)', ({ store, dialect }) => {
  test('a reader cut after any frame resumes without loss or duplicates', async () => {
    const log = await openLog(store)
    await createSealed(log, 'turn', dialect.log, recordsOf('turn', dialect.log))
    const { port } = await serve(log)
    const path = dialect.pathOf('turn')
    const frames = framesOf((await get(port, path)).body)
    expect(frames.length).toBeGreaterThan(7)
    for (let cut = 0; cut <= frames.length; cut++) {
      const view = dialect.view('turn')
      const cursor = readInto(view, frames.slice(0, cut).join(''))
      const rest = await get(port, path, resumed(cursor))
      expect(rest.status).toBe(cut === frames.length ? 204 : 200)
      readInto(view, rest.body)
      expect(view.seen).toEqual(dialect.expected('turn'))
    }
  }, 60_000)
})

describe.each(DIALECTS)('$name', (dialect) => {
  test('a reader cut after any byte resumes without loss or duplicates', async () => {
    const log = await openLog()
    await createSealed(log, 'turn', dialect.log, recordsOf('turn', dialect.log))
    const { port } = await serve(log)
    const path = dialect.pathOf('turn')
    const { body } = await get(port, path)
    const rests = new Map<string, Buffer>()
    for (let cut = 0; cut <= body.length; cut++) {
      const view = dialect.view('turn')
      const cursor = readInto(view, body.subarray(0, cut))
      const rest = rests.get(cursor) ?? (await get(port, path, resumed(cursor))).body
      rests.set(cursor, rest)
      readInto(view, rest)
      expect(view.seen).toEqual(dialect.expected('turn'))
    }
  }, 60_000)
})

/** Writes a turn record by record while a reader reads it. */
class Writing {
  readonly #log: TurnLog
  readonly #dialect: Dialect
  readonly #lease: Lease
  #written = 0

  constructor(log: TurnLog, dialect: Dialect, lease: Lease) {
    this.#log = log
    this.#dialect = dialect
    this.#lease = lease
  }

  /** False when the turn has its end already. */
  async writeOne(): Promise<boolean> {
    const records = recordsOf(this.#lease.turnId, this.#dialect.log)
    const record = records[this.#written]
    if (record === undefined) return false
    this.#written += 1
    const seal = this.#written === records.length
    await appendTo(this.#log, this.#lease, this.#dialect.log, [record], { seal })
    if (seal) await this.#sealOther()
    return true
  }

  async #sealOther(): Promise<void> {
    const { turnId } = this.#lease
    const isEvents = this.#dialect.log === 'events'
    const data = isEvents ? turnComplete(turnId) : responseDone(turnId, 1)
    const other = isEvents ? 'processed' : 'events'
    await appendTo(this.#log, this.#lease, other, [{ seq: 1, data }], { seal: true })
  }
}

/** Reads as many frames as there are, or up to `limit`, writing one record whenever all are read. */
async function readFrames(
  client: RawClient,
  view: View,
  writing: Writing,
  limit: number,
): Promise<string> {
  await client.until(({ body }) => body.toString().split('\n\n').length > 2)
  for (;;) {
    const { body, isWhole } = client.answer
    const frames = body.toString().split('\n\n').length - 1
    if (frames >= limit || isWhole) {
      const read = body.toString().split('\n\n').slice(0, limit).join('\n\n')
      return readInto(view, isWhole && frames <= limit ? body : `${read}\n\n`)
    }
    const changed = client.changed()
    const isOver = !(await writing.writeOne())
    if (isOver && client.answer.isWhole) continue
    await changed
  }
}

describe.each(CASES)('$dialect.name of a turn that is being written ($store)', (given) => {
  test('a reader cut after any frame resumes without loss or duplicates', async () => {
    const { store, dialect } = given
    const log = await openLog(store)
    const { port } = await serve(log)
    const count = recordsOf('turn', dialect.log).length
    for (let cut = 2; cut <= count + 2; cut++) {
      for (const missed of [0, 1, 3]) {
        const turnId = `turn-${cut}-${missed}`
        const path = dialect.pathOf(turnId)
        const lease = await createTurn(log, turnId, `thread-of-${turnId}`)
        const writing = new Writing(log, dialect, lease)
        const view = dialect.view(turnId)
        const first = await RawClient.open(port, path)
        const cursor = await readFrames(first, view, writing, cut)
        first.close()
        // What is written while nobody reads.
        for (let each = 0; each < missed; each++) await writing.writeOne()
        const second = await RawClient.open(port, path, resumed(cursor))
        await second.until(({ head }) => head !== undefined)
        if (second.head?.status === 200) await readFrames(second, view, writing, Infinity)
        second.close()
        expect(view.seen).toEqual(dialect.expected(turnId))
      }
    }
  }, 60_000)
})
