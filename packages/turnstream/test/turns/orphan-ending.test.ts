import { describe, expect, test } from 'vitest'
import { type FakeClock, fakeClock } from '../../../conformance/src/index.ts'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import type { StreamEvent } from '../../../core/src/index.ts'
import type {
  LogName,
  LogRecord,
  NewTurn,
  Orphan,
  Tailed,
  TurnLog,
} from '../../../core/src/log/turn-log.ts'
import { eventIdsOf } from '../../../core/src/protocol/ids.ts'
import { streamEventFault } from '../../../core/src/protocol/stream-event-guard.ts'
import {
  delta,
  done,
  open,
  responseDone,
  start,
  usage,
} from '../../../core/test/processor/events.ts'
import { endOrphan, endOrphans } from '../../src/server.ts'
import { HookedLog } from '../log/hooked-log.ts'

const LEASE_MS = 900
const RUN_ID = '0c3f1d52-6a3e-4b52-9d0a-5a1f0f9a7e11'
const TURN: NewTurn = { turnId: 't', threadId: 'th', runId: RUN_ID, owner: 'first' }
const forever = new AbortController().signal

interface LeftBehind {
  readonly events?: readonly unknown[]
  readonly processed?: readonly unknown[]
  /** Whether `events` is sealed. */
  readonly seal?: boolean
}

async function orphan(
  { events = [], processed = [], seal = false }: LeftBehind,
  turn = TURN,
  given?: { log: HookedLog; clock: FakeClock },
) {
  const clock = given?.clock ?? fakeClock(5_000_000)
  const log = given?.log ?? new HookedLog({ clock })
  const lease = await log.create(turn, LEASE_MS)
  for (const [name, texts] of Object.entries({ events, processed })) {
    const records = texts.map((value, index) => ({ seq: index + 1, data: JSON.stringify(value) }))
    for (let at = 0; at < records.length; at += 256) {
      const options = { seal: seal && name === 'events' }
      await appendTo(log, lease, name as LogName, records.slice(at, at + 256), options)
    }
  }
  await clock.advance(LEASE_MS)
  return { log, clock, options: { owner: 'another', leaseMs: LEASE_MS, clock } }
}

async function lastEvent(log: TurnLog): Promise<StreamEvent> {
  let last: LogRecord | undefined
  for await (const record of log.tail('t', 'events', '0-0', forever)) last = record as LogRecord
  return JSON.parse(last!.data)
}

async function outputsOf(log: TurnLog): Promise<Record<string, unknown>[]> {
  return (await log.snapshot('t')).records.map(({ data }) => JSON.parse(data))
}

const ERROR = { code: 'PRODUCER_LOST', message: 'The process that wrote this turn is gone' }

describe('the event that ends an orphan', () => {
  test('is like its other events: of the same run, response and trace, with the next id', async () => {
    const events = [start({ response_id: 'resp-1' }), open('a'), delta('a', 'text')]
    const { log, clock, options } = await orphan({ events })
    await endOrphan(log, 't', options)
    const last = await lastEvent(log)
    expect(last).toEqual({
      event_id: eventIdsOf(RUN_ID, 4)(),
      timestamp: clock.now(),
      trace_context: events[0]!.trace_context,
      run_id: RUN_ID,
      type: 'response_error',
      payload: { type: 'response_error', response_id: 'resp-1', error: ERROR },
    })
    expect(streamEventFault(last)).toBeUndefined()
    expect(await log.getTurn('t')).toMatchObject({ status: 'error', error: ERROR, sealed: true })
  })

  test.each([
    { what: 'has no events', events: [], traceparent: '' },
    { what: 'has no beginning', events: [usage(1, 2)], traceparent: '00-0-0-01' },
  ])('names the run where the turn $what', async ({ events, traceparent }) => {
    const { log, options } = await orphan({ events })
    await endOrphan(log, 't', options)
    expect(await lastEvent(log)).toMatchObject({
      event_id: eventIdsOf(RUN_ID, events.length)(),
      trace_context: { traceparent },
      payload: { response_id: RUN_ID },
    })
    expect(await outputsOf(log)).toMatchObject([
      { type: 'turn_error', turnId: 't', threadId: 'th', error: ERROR, finishReason: 'error' },
    ])
  })

  test('is PRODUCER_LOST even when the turn had been cancelled', async () => {
    const { log, options } = await orphan({ events: [start()] })
    await log.requestCancel('t', 'enough')
    await endOrphan(log, 't', options)
    expect((await lastEvent(log)).type).toBe('response_error')
  })
})

describe('the outputs that end an orphan', () => {
  test('match the stored events, even if never emitted', async () => {
    const events = [start(), open('a'), delta('a', 'half a '), delta('a', 'sentence')]
    const { log, options } = await orphan({ events })
    await endOrphan(log, 't', options)
    expect(await outputsOf(log)).toMatchObject([
      { type: 'turn_started' },
      { itemId: 'a', status: 'error', content: 'half a sentence', errorCode: 'PRODUCER_LOST' },
      { type: 'turn_error', error: ERROR },
    ])
  })

  test('are not repeated if already stored', async () => {
    const events = [start(), done('a', 'x'), done('b', 'y')]
    const whole = await orphan({ events })
    await endOrphan(whole.log, 't', whole.options)
    const processed = (await outputsOf(whole.log)).slice(0, -1)
    const { log, options } = await orphan({ events, processed })
    await endOrphan(log, 't', options)
    const { records } = await log.snapshot('t')
    expect(records.map(({ offset }) => offset)).toEqual(['1-1', '1-2', '1-3', '2-4'])
  })

  test('leave out events that the processor ignores', async () => {
    const strange = { ...start(), type: 'later', payload: { type: 'later' } }
    const malformed = { ...start(), payload: { type: 'item_delta' } }
    const { log, options } = await orphan({ events: [start(), strange, malformed, open('a')] })
    expect(await endOrphan(log, 't', options)).toBe('ended')
    expect(await outputsOf(log)).toMatchObject([
      { type: 'turn_started' },
      { itemId: 'a', status: 'error', content: '' },
      { type: 'turn_error' },
    ])
  })

  test('may exceed one append', async () => {
    const items = Array.from({ length: 600 }, (_, index) => done(`item-${index}`, `text ${index}`))
    const { log, options } = await orphan({ events: [start(), ...items] })
    expect(await endOrphan(log, 't', options)).toBe('ended')
    const outputs = await outputsOf(log)
    expect(outputs).toHaveLength(602)
    expect(outputs[600]).toMatchObject({ itemId: 'item-599', content: 'text 599' })
  })

  test('are what readers have seen when the start of the events is trimmed', async () => {
    const shown = { type: 'message', turnId: 't', threadId: 'th', itemId: 'a', status: 'create' }
    const processed = [{ ...shown, content: 'more than is left', origin: 'agent' }]
    const { log, options } = await orphan({ events: [start(), delta('a', 'left')], processed })
    const trimmed = withTail(log, async function* (records) {
      yield { resync: 'trimmed' }
      for await (const record of records) if (!('resync' in record)) yield record
    })
    expect(await endOrphan(trimmed, 't', options)).toBe('ended')
    expect(await outputsOf(log)).toMatchObject([
      { content: 'more than is left' },
      { type: 'turn_error', error: ERROR },
    ])
  })

  test('end the turn even when the last event is unreadable', async () => {
    const { log, options } = await orphan({ events: [start(), responseDone()], seal: true })
    const damaged = withTail(log, async function* (records) {
      for await (const record of records)
        yield { offset: (record as LogRecord).offset, event: '?' } as never
    })
    expect(await endOrphan(damaged, 't', options)).toBe('ended')
    expect(await outputsOf(log)).toMatchObject([
      { type: 'turn_error', error: { code: 'STORE_CORRUPT' } },
    ])
  })
})

describe('the lease while an orphan is ended', () => {
  /** Every record takes its time. */
  function slow(log: TurnLog, clock: FakeClock, ms: number): TurnLog {
    return withTail(log, async function* (records) {
      for await (const record of records) {
        await clock.advance(ms)
        yield record
      }
    })
  }

  const events = [start(), ...Array.from({ length: 40 }, (_, index) => done(`i${index}`, 'x'))]

  test('is renewed every third of its duration while there is work', async () => {
    const { log, clock, options } = await orphan({ events })
    let renewals = 0
    const renew = log.renew.bind(log)
    log.renew = (...args) => {
      renewals += 1
      return renew(...args)
    }
    expect(await endOrphan(slow(log, clock, 100), 't', options)).toBe('ended')
    expect(renewals).toBe(13)
  })

  test('may be lost to another process, which then ends the turn', async () => {
    const { log, clock, options } = await orphan({ events })
    let other: unknown
    const stopped = withTail(log, async function* (records) {
      for await (const record of records) {
        await clock.advance(LEASE_MS)
        other ??= await endOrphan(log, 't', options)
        yield record
      }
    })
    expect(await endOrphan(stopped, 't', options)).toBe('held')
    expect(other).toBe('ended')
  })
})

describe('endOrphans', () => {
  test('ends up to the given number of expired turns and leaves the rest', async () => {
    const given = await orphan({ events: [start()] })
    const { log, clock, options } = given
    for (const turnId of ['u', 'v']) {
      await orphan({ events: [start()] }, { turnId, threadId: turnId, owner: 'first' }, given)
    }
    await log.create({ turnId: 'alive', threadId: 'alive', owner: 'first' }, LEASE_MS)
    expect(await endOrphans(log, { ...options, limit: 2 })).toBe(2)
    expect(await endOrphans(log, { ...options, limit: 2 })).toBe(1)
    expect(await endOrphans(log, { ...options, limit: 2 })).toBe(0)
    expect(await log.getTurn('alive')).toMatchObject({ sealed: false, epoch: 1 })
    await clock.advance(LEASE_MS)
    expect(await endOrphans(log, { ...options, limit: 2 })).toBe(1)
  })

  test('reports a turn that cannot be ended and continues with the next', async () => {
    const given = await orphan({ events: [start()] })
    const { log, options } = given
    await orphan({}, { turnId: 'u', threadId: 'u', owner: 'first' }, given)
    const snapshot = log.snapshot.bind(log)
    log.snapshot = (id) => (id === 't' ? Promise.reject(new Error('no')) : snapshot(id))
    const failures: unknown[] = []
    const onError = (error: unknown, { turnId }: Orphan) => failures.push([String(error), turnId])
    expect(await endOrphans(log, { ...options, limit: 10, onError })).toBe(1)
    expect(failures).toEqual([['Error: no', 't']])
  })
})

type Reader = (records: AsyncIterable<Tailed>) => AsyncGenerator<Tailed, void>

/** The same log with another view of its events. */
function withTail(log: TurnLog, reader: Reader): TurnLog {
  return new Proxy(log, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (name !== 'tail') return value.bind(target)
      return (...args: Parameters<TurnLog['tail']>) => reader(target.tail(...args))
    },
  })
}

test('a turn of 100,000 events is ended like any other', {
  timeout: 30_000,
  tags: ['slow'],
}, async () => {
  const texts = Array.from({ length: 100_000 }, (_, index) => delta('a', `${index} `))
  const { log, options } = await orphan({ events: [start(), open('a'), ...texts] })
  expect(await endOrphan(log, 't', options)).toBe('ended')
  const [, item] = await outputsOf(log)
  expect(item).toMatchObject({ status: 'error', content: expect.stringMatching(/ 99999 $/) })
})
