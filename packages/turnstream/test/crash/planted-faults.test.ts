import { beforeAll, describe, expect, test } from 'vitest'
import { Ledger, type Promised } from '../../../../scripts/crash/ledger.mjs'
import { MemoryLog } from '../../../../scripts/crash/library.mjs'
import { type Observed, observeTurn, type SeenRecord } from '../../../../scripts/crash/observe.mjs'
import { type PlannedTurn, planTurn } from '../../../../scripts/crash/plan.mjs'
import { Random } from '../../../../scripts/crash/random.mjs'
import { faultOfEvents, faultOfTurn } from '../../../../scripts/crash/verify-turn.mjs'
import { leaveTurns, SEED } from './left-turns.ts'

describe('a planted fault in a turn', () => {
  let plan: PlannedTurn
  let promised: Promised
  let observed: Observed

  beforeAll(async () => {
    const log = new MemoryLog()
    const ledger = new Ledger()
    await leaveTurns(log, ledger)
    // A turn that was written to its end and has shown several items.
    promised = [...ledger.turns.values()].find(
      ({ number, processed }) =>
        planTurn(SEED, number).fate === 'finish' && processed.byKey.size > 4,
    )!
    plan = planTurn(SEED, promised.number)
    observed = await observeTurn(log.ofTenant(plan.tenant), plan.turnId, new Random(SEED))
  })

  test('is not reported when there is none', async () => {
    expect(await faultOfTurn(plan, promised, structuredClone(observed))).toBeUndefined()
  })

  const events = (turn: Observed) => turn.events as SeenRecord[]
  const outputs = (turn: Observed) => turn.snapshot.records
  /** The same change for a reader and in the snapshot. */
  const inProcessed = (change: (records: SeenRecord[]) => void) => (turn: Observed) => {
    change(outputs(turn))
    turn.processed = structuredClone(outputs(turn))
  }
  const edit = (record: SeenRecord | undefined, fields: Partial<SeenRecord>) => {
    Object.assign(record as object, fields)
  }

  test.each<[string, (turn: Observed) => void, RegExp]>([
    ['a lost record', (turn) => events(turn).splice(1, 1), /record 2: has the offset 1-3/],
    ['a lost end', (turn) => events(turn).pop(), /records were acknowledged/],
    [
      'a gap',
      (turn) => {
        for (const record of events(turn).slice(2)) {
          edit(record, { offset: `1-${Number(record.offset.slice(2)) + 1}` })
        }
      },
      /record 3: has the offset 1-4/,
    ],
    [
      'a duplicate',
      (turn) => events(turn).splice(2, 0, events(turn)[1]!),
      /record 3: has the offset 1-2/,
    ],
    [
      'another order',
      (turn) => {
        const [a, b] = [events(turn)[1]!, events(turn)[2]!]
        events(turn).splice(1, 2, { ...b, offset: a.offset }, { ...a, offset: b.offset })
      },
      /record 2: is not what was written/,
    ],
    [
      'a changed byte',
      (turn) => edit(events(turn)[1], { data: events(turn)[1]!.data.replace('"', "'") }),
      /record 2: is not what was written/,
    ],
    ['another event id', (turn) => edit(events(turn)[1], { eventId: 'x' }), /another envelope/],
    ['another time', (turn) => edit(events(turn)[1], { timestamp: 1 }), /another envelope/],
    [
      'two ends',
      (turn) => {
        const last = events(turn).at(-1)!
        const { event_id: eventId, timestamp } = JSON.parse(last.data)
        const error = { code: 'PRODUCER_LOST', message: '' }
        const payload = { type: 'response_error', response_id: 'r', error }
        const data = JSON.stringify({ event_id: eventId, timestamp, type: payload.type, payload })
        events(turn).push({ offset: `2-${events(turn).length + 1}`, data, eventId, timestamp })
      },
      /events has 2 ends/,
    ],
    [
      'an event of another epoch',
      (turn) => edit(events(turn)[1], { offset: '2-2' }),
      /is of epoch 2 and a item_start/,
    ],
    ['a resync', (turn) => turn.events.unshift({ resync: 'foreign' }), /resync: foreign/],
    [
      'a turn that is not sealed',
      (turn) => edit(turn.record as never, { sealed: false } as never),
      /not sealed/,
    ],
    ['a turn that is gone', (turn) => delete (turn as Partial<Observed>).record, /is gone/],
    [
      'a wrong status',
      (turn) => edit(turn.record as never, { status: 'in_progress' } as never),
      /the record says in_progress/,
    ],
    [
      'a snapshot that differs from what readers get',
      (turn) => turn.processed.pop(),
      /something else than the snapshot/,
    ],
    ['a lost item', inProcessed((records) => records.splice(2, 1)), /was acknowledged and is gone/],
    [
      'an item twice',
      inProcessed((records) => records.splice(2, 0, { ...records[1]! })),
      /a key has two records/,
    ],
    [
      'an offset twice',
      inProcessed((records) => edit(records[2], { offset: records[1]!.offset })),
      /an offset has two records/,
    ],
    [
      'an older snapshot',
      inProcessed((records) => {
        const [first, , third] = records
        edit(third, { offset: first!.offset })
        records.shift()
      }),
      /was acknowledged/,
    ],
    [
      'a changed snapshot',
      inProcessed((records) =>
        edit(records[2], { data: records[2]!.data.replace('complete', 'update') }),
      ),
      /was changed/,
    ],
    ['no end of the outputs', inProcessed((records) => records.pop()), /processed/],
    [
      'an end that is not last',
      inProcessed((records) => records.unshift(records.pop()!)),
      /does not end with its end/,
    ],
    [
      'a reader that gets too much',
      (turn) => turn.resumed[0]!.records.unshift(turn.events[0]!),
      /does not get the rest/,
    ],
    [
      'a reader that gets too little',
      (turn) => turn.resumed[1]!.records.push(turn.processed[0]!),
      /does not get the rest/,
    ],
  ])('is found: %s', async (_name, plant, message) => {
    const turn = structuredClone(observed)
    plant(turn)
    expect(await faultOfTurn(plan, promised, turn)).toMatch(message)
  })

  test('is found in the state of the items', async () => {
    const nothing = { ...promised, processed: { head: 0, sealed: false, byKey: new Map() } }
    const turn = structuredClone(observed)
    const [, , item] = outputs(turn)
    edit(item, { data: JSON.stringify({ ...JSON.parse(item!.data), content: 'other' }) })
    turn.processed = structuredClone(outputs(turn))
    expect(await faultOfTurn(plan, nothing, turn)).toMatch(/and should be/)
    inProcessed((records) => edit(records[2], { key: 'stranger' }))(turn)
    expect(await faultOfTurn(plan, nothing, turn)).toMatch(/is missing/)
    const more = structuredClone(observed)
    const { head } = { head: outputs(more).length + 1000 }
    inProcessed((records) => {
      records.splice(1, 0, { ...records[1]!, key: 'stranger', offset: '1-999' })
      edit(records.at(-1), { offset: `1-${head}` })
    })(more)
    edit(more.snapshot as never, { offset: `1-${head}` })
    more.resumed = []
    expect(await faultOfTurn(plan, nothing, more)).toMatch(/stranger follows from no event/)
  })

  test('is found in an unfinished turn', () => {
    const { head } = promised.events
    const records = observed.events.slice(0, head - 1)
    expect(faultOfEvents(plan, promised, records)).toMatch(/acknowledged/)
    expect(faultOfEvents(plan, promised, observed.events)).toBeUndefined()
  })
})
