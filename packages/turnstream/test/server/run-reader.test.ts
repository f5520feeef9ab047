import { describe, expect, test, vi } from 'vitest'
import type { TurnLog, TurnRecord } from '../../../core/src/log/turn-log.ts'
import { RunReader } from '../../src/server/routes/runs.ts'
import { MemoryLog } from '../../src/server.ts'
import { writeLongTurn } from './fairness/long-turns.ts'

async function record(log: TurnLog, turnId: string): Promise<TurnRecord> {
  const turn = await log.getTurn(turnId)
  if (turn === undefined) throw new Error(`no ${turnId}`)
  return turn
}

/** A store with a turn, a reader, and how often the turn was read from the store. */
async function stage(isSealed: boolean, maxBytes?: number) {
  const log = new MemoryLog()
  await writeLongTurn(log, { turnId: 'turn', deltas: 100, isSealed })
  const tail = vi.spyOn(log, 'tail')
  const runs = new RunReader(maxBytes)
  const read = async (turnId = 'turn', tenant = 'default') => {
    const bytes = await runs.read(log, tenant, await record(log, turnId))
    return JSON.parse(new TextDecoder().decode(bytes))
  }
  return { log, runs, read, count: () => tail.mock.calls.length }
}

describe('the Response of a sealed turn', () => {
  test('is read once for concurrent readers and cached', async () => {
    const { read, count } = await stage(true)
    const responses = await Promise.all(Array.from({ length: 20 }, () => read()))
    for (const response of responses) expect(response).toEqual(responses[0])
    expect(responses[0].output_items[0].content).toBe('word '.repeat(100))
    await read()
    expect(count()).toBe(1)
  })

  test('is the one stored with the seal, if there is one', async () => {
    const { log, read, count } = await stage(true)
    vi.spyOn(log, 'getResponse').mockResolvedValue('{"status":"stored"}')
    expect(await read()).toEqual({ status: 'stored' })
    expect(count()).toBe(0)
  })

  test('is cached per tenant', async () => {
    const { read, count } = await stage(true)
    await read()
    await read('turn', 'other')
    expect(count()).toBe(2)
  })

  test('belongs to the new turn after a delete and recreate', async () => {
    const { log, read } = await stage(true)
    await read()
    await log.deleteTurn('turn')
    await writeLongTurn(log, { turnId: 'turn', deltas: 1, text: 'new' })
    expect((await read()).output_items[0].content).toBe('new')
  })

  test('is not read again after its logs have expired', async () => {
    const { log, runs, read } = await stage(true)
    await read()
    const turn = { ...(await record(log, 'turn')), expired: true }
    await expect(runs.read(log, 'default', turn)).rejects.toMatchObject({ code: 'TURN_EXPIRED' })
  })

  test('is cached up to a number of bytes, least recently used first out', async () => {
    const { log, runs, read, count } = await stage(true, 2000)
    for (const turnId of ['a', 'b', 'c']) await writeLongTurn(log, { turnId, deltas: 100 })
    const before = count()
    for (const turnId of ['a', 'b', 'a', 'c', 'a']) await read(turnId)
    expect(count() - before).toBe(3)
    await read('b')
    expect(count() - before).toBe(4)
    expect(runs.cachedBytes).toBeGreaterThan(0)
    expect(runs.cachedBytes).toBeLessThanOrEqual(2000)
  })

  test('is not cached when it alone exceeds the limit', async () => {
    const { runs, read } = await stage(true, 100)
    expect((await read()).status).toBe('complete')
    expect(runs.cachedBytes).toBe(0)
  })

  test('is read again after a store failure', async () => {
    const { log, read } = await stage(true)
    vi.spyOn(log, 'tail').mockImplementationOnce(() => {
      throw new Error('the store is away')
    })
    await expect(read()).rejects.toThrow('the store is away')
    expect((await read()).status).toBe('complete')
  })
})

describe('the Response of a running turn', () => {
  test('is read once for waiting readers and includes everything written before they came', async () => {
    const { log, read, count } = await stage(false)
    const first = read()
    await Promise.resolve()
    const others = Array.from({ length: 20 }, () => read())
    const responses = await Promise.all([first, ...others])
    for (const { output_items } of responses) {
      expect(output_items[0].content).toBe('word '.repeat(100))
    }
    expect(count()).toBeLessThanOrEqual(2)
    expect(await log.getTurn('turn')).toMatchObject({ sealed: false })
  })
})
