import { LOG_NAMES } from '@turnstream/core/internal/log/turn-log'
import { equal, ok, oneSucceeds, rejects } from './assert.ts'
import { type Cases, LONG_MS, soon } from './given.ts'
import { threadIdsOf, turnIdsOf } from './reading.ts'
import { delta, eventsUpTo, eventText, numbered, outputsOf } from './texts.ts'

const USAGE = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12, cached_tokens: 2 }
const ERROR = { code: 'UPSTREAM_TIMEOUT', message: 'silent „for“ too long' }
const ID = { response_id: 'run' }

/** The last event of a turn, and the record that follows from it. */
const OUTCOMES: readonly [payload: { type: string; [name: string]: unknown }, outcome: object][] = [
  [
    { type: 'response_done', ...ID, status: 'complete', usage: USAGE, finish_reason: 'stop' },
    { status: 'complete', usage: USAGE, finishReason: 'stop' },
  ],
  [{ type: 'response_done', ...ID, status: 'complete' }, { status: 'complete' }],
  [{ type: 'response_done', ...ID, status: 'aborted', finish_reason: null }, { status: 'aborted' }],
  [{ type: 'response_done', ...ID, status: 'error' }, { status: 'error' }],
  [
    { type: 'response_error', ...ID, error: ERROR },
    { status: 'error', error: ERROR },
  ],
  [{ type: 'turn_aborted_by_user', turn_id: 'turn', reason: 'user' }, { status: 'aborted' }],
]

/** 1 to 200 characters, without white space, braces and control characters. */
const IDS = ['a'.repeat(200), '漢'.repeat(200)].concat(
  'x 0 .. - * [a-z]? a:b:c a/b\\c %7B%00 "quoted\' __proto__ constructor ünï-код-漢字-🎉 0-0'.split(
    ' ',
  ),
)
const NO_IDS = [
  'a b',
  'a\n',
  '\ta',
  '{a}',
  'a}',
  'a\u0000',
  '\u007f',
  '\ud800',
  'a'.repeat(201),
  '',
  ' ',
]

export const recordCases: Cases = {
  'L1 the record of a new turn has its ids and is in progress': async (given) => {
    const request = '{"prompt":"ünï\\n"}'
    const turn = { turnId: 'turn', runId: 'run', threadId: 'thread', owner: 'me', request }
    await given.log.create(turn, LONG_MS)
    const { createdAt, ...record } = (await given.log.getTurn('turn')) ?? { createdAt: undefined }
    const fresh = { ordinal: 1, epoch: 1, status: 'in_progress', sealed: false, expired: false }
    equal(record, { ...turn, ...fresh }, 'the record')
    ok(Number.isFinite(createdAt), `made at ${createdAt}`)
    equal(await given.log.getTurnOfRun('run'), { ...record, createdAt }, 'the record of the run')
    equal((await given.log.getThread('thread'))?.threadId, 'thread', 'the thread of the turn')
  },
  'L1 an unknown turn or run has no record': async (given) => {
    await given.create('turn', { runId: 'run' })
    equal(await given.log.getTurn('run'), undefined, 'a turn by the name of its run')
    equal(await given.log.getTurnOfRun('turn'), undefined, 'a run by the name of its turn')
    equal(await given.log.getThread('turn'), undefined, 'a thread')
    equal(await given.log.listTurns('nowhere'), { items: [] }, 'the turns of no thread')
    await rejects(given.log.snapshot('run'), 'TURN_UNKNOWN', 'a snapshot of no turn')
  },
  'L4 the record has the outcome with events, and is sealed with both logs': async (given) => {
    for (const [index, [payload, outcome]] of OUTCOMES.entries()) {
      const turnId = `turn-${index}`
      const lease = await given.create(turnId)
      const before = await given.log.getTurn(turnId)
      await given.under.elapse(2)
      const last = numbered([delta(turnId, 1), eventText(turnId, 2, payload)])
      await given.append(lease, 'events', last, { seal: true })
      const { endedAt = 0, ...ended } = (await given.log.getTurn(turnId)) ?? {}
      equal(ended, { ...before, ...outcome }, `the record after ${JSON.stringify(payload)}`)
      ok(endedAt > (before?.createdAt ?? Infinity), `ended at ${endedAt}`)
      await given.under.elapse(2)
      await given.append(lease, 'processed', outputsOf(turnId, 'a'), { seal: true })
      await given.append(lease, 'events', last, { seal: true })
      const sealed = { ...before, ...outcome, endedAt, sealed: true }
      equal(await given.log.getTurn(turnId), sealed, 'the record when both are sealed')
    }
  },
  'L4 the outcome comes from the terminal when other records are sealed with it': async (given) => {
    const lease = await given.create('turn')
    await given.append(lease, 'events', eventsUpTo('turn', 256).slice(0, 255))
    await given.append(lease, 'events', eventsUpTo('turn', 300, 256), { seal: true })
    equal((await given.log.getTurn('turn'))?.status, 'complete', 'the status')
  },
  'L1 creating an existing turn or run is TURN_EXISTS with its record': async (given) => {
    const make = (turnId: string, runId?: string) =>
      given.create(turnId, { threadId: 'other', ...(runId !== undefined && { runId }) })
    const lease = await given.create('turn', { runId: 'run', request: 'a' })
    for (const _ of ['open', 'sealed']) {
      const record = await given.log.getTurn('turn')
      const again = await rejects(make('turn', 'run'), 'TURN_EXISTS', 'the same turn')
      equal(again['turn'], record, 'the record that the error carries')
      const sameId = await rejects(make('turn', 'run-2'), 'TURN_EXISTS', 'the same id')
      equal(sameId['turn'], record, 'the record')
      const sameRun = await rejects(make('turn-2', 'run'), 'TURN_EXISTS', 'the same run')
      equal(sameRun['turn'], record, 'the record')
      const runAsTurn = await rejects(make('run'), 'TURN_EXISTS', 'a turn with the id of the run')
      equal(runAsTurn['turn'], record, 'the record')
      if (record?.sealed === false) await given.seal(lease)
    }
    equal(await given.log.getThread('other'), undefined, 'a thread of refused turns')
    equal((await given.log.getTurn('turn'))?.request, 'a', 'the request')
  },
  'D4 a thread accepts no turn until both logs of the last one are sealed': async (given) => {
    const thread = { threadId: 'thread' }
    const lease = await given.create('turn-1', thread)
    await rejects(given.create('turn-2', thread), 'THREAD_BUSY', 'a second turn')
    await given.append(lease, 'events', eventsUpTo('turn-1', 2), { seal: true })
    await rejects(given.create('turn-2', thread), 'THREAD_BUSY', 'a turn before the end')
    await given.create('elsewhere')
    await given.append(lease, 'processed', outputsOf('turn-1', 'a'), { seal: true })
    await given.create('turn-2', thread)
    equal((await given.log.getTurn('turn-2'))?.ordinal, 2, 'the ordinal')
    await rejects(given.create('turn-3', thread), 'THREAD_BUSY', 'a third turn')
    await given.log.deleteTurn('turn-2')
    await given.create('turn-3', thread)
  },
  'D4 one of 20 concurrent creations in a thread succeeds, in all processes': async (given) => {
    const places = [given, await given.elsewhere()] as const
    const turnIds = Array.from({ length: 20 }, (_, index) => `turn-${index}`)
    const creations = turnIds.map((turnId, index) =>
      places[index % 2 === 0 ? 0 : 1].create(turnId, { threadId: 'thread' }),
    )
    const { turnId } = (await oneSucceeds(creations, 'THREAD_BUSY')).value
    const listed = await given.log.listTurns('thread')
    equal(turnIdsOf(listed.items), [turnId], 'the turns of the thread')
    const again = turnIds.map(() => soon(places[1].create(turnId, { threadId: 'thread' })))
    for (const each of again) await rejects(each, 'TURN_EXISTS', 'the same turn')
  },
  'L1 ids of 1 to 200 characters without white space and braces are valid': async (given) => {
    for (const id of IDS) {
      const lease = await given.create(id, { threadId: id })
      await given.seal(lease)
      equal((await given.log.getTurn(id))?.runId, id, 'the run')
      for (const name of LOG_NAMES) ok((await given.read(id, name)).length > 0, `${name} of ${id}`)
      const { items } = await given.log.listTurns(id)
      equal(turnIdsOf(items), [id], `the turns of thread ${id}`)
    }
    const { items } = await given.log.listThreads()
    equal(threadIdsOf(items).toSorted(), IDS.toSorted(), 'the threads')
  },
  'L1 any other id is RECORD_INVALID': async (given) => {
    for (const id of NO_IDS) {
      const what = `the id ${JSON.stringify(id)}`
      await rejects(given.create(id, { threadId: 'thread' }), 'RECORD_INVALID', what)
      await rejects(given.create('turn', { runId: id }), 'RECORD_INVALID', what)
      await rejects(given.create('turn', { threadId: id }), 'RECORD_INVALID', what)
      await rejects(given.log.putThread({ threadId: id }), 'RECORD_INVALID', what)
    }
    equal(await given.log.listThreads(), { items: [] }, 'the threads')
  },
}
