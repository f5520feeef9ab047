import { LOG_NAMES } from '@turnstream/core/internal/log/turn-log'
import { equal, rejects } from './assert.ts'
import { type Cases, type Given, LONG_MS, RETENTION_MS, SHORT_MS, withRetention } from './given.ts'
import { payloads } from './payloads.ts'
import { deltas, eventsUpTo, eventText, numbered } from './texts.ts'

const CONTENT_MS = RETENTION_MS
const BRIEF = { contentMs: CONTENT_MS, threadId: 'thread' }
const RESPONSE = '{"secret":1}'

/** Checks that only the record of a turn is left. */
async function checkExpired(given: Given, turnId: string): Promise<void> {
  const { log } = given
  for (const name of LOG_NAMES) {
    const read = given.read(turnId, name)
    await rejects(read, 'TURN_EXPIRED', `a tail of ${name} of ${turnId}`)
  }
  await rejects(log.snapshot(turnId), 'TURN_EXPIRED', `a snapshot of ${turnId}`)
  equal(await log.getResponse(turnId), undefined, `the Response of ${turnId}`)
  const { expired, status, contentMs } = (await log.getTurn(turnId)) ?? {}
  equal([expired, status, contentMs], [true, 'complete', CONTENT_MS], `the record of ${turnId}`)
}

export const contentCases: Cases = {
  'L10 content with a limit expires, and its turn keeps its place': async (given, log) => {
    await given.createSealed('before', { threadId: 'thread' })
    const lease = await given.create('turn', { ...BRIEF, runId: 'run', request: 'r' })
    await given.append(lease, 'events', deltas('run', 1, 3))
    await given.under.elapse(CONTENT_MS * 1.2)
    equal((await given.take('turn', 'events', 3)).length, 3, 'the events of a long turn')
    const last = eventsUpTo('run', 4, 4)
    await given.append(lease, 'events', last, { seal: true, response: RESPONSE })
    await given.sealProcessed(lease)
    equal((await given.read('turn', 'events')).length, 4, 'the events after the end')
    equal((await given.read('turn', 'processed')).length, 3, 'the snapshots after the end')
    equal(await log.getResponse('turn'), RESPONSE, 'the Response after the end')
    const before = await log.getTurn('turn')
    equal([before?.expired, before?.contentMs], [false, CONTENT_MS], 'the record after the end')
    await given.createSealed('after', { threadId: 'thread' })
    await given.under.elapse(CONTENT_MS * 1.2)
    await checkExpired(given, 'turn')
    const after = { ...before, expired: true }
    equal(await log.getTurn('turn'), after, 'the record')
    equal(await log.getTurnOfRun('run'), after, 'the record of the run')
    const { items } = await log.listTurns('thread')
    const places = items.map(({ turnId, ordinal, expired }) => [turnId, ordinal, expired])
    const expected = [
      ['before', 1, false],
      ['turn', 2, true],
      ['after', 3, false],
    ]
    equal(places, expected, 'the turns of the thread')
    await rejects(log.claim('turn', 'heir', LONG_MS), 'TURN_EXPIRED', 'a claim')
    await rejects(log.requestCancel('turn', 'x'), 'TURN_EXPIRED', 'a cancel')
    await rejects(given.create('turn', { runId: 'run' }), 'TURN_EXISTS', 'the same turn again')
    for (const turnId of ['before', 'after'])
      equal((await given.read(turnId, 'events')).length, 2, `the events of ${turnId}`)
  },
  'L10 content of a turn that others end expires, also after a restart': async (given) => {
    await given.create('open', { contentMs: CONTENT_MS }, SHORT_MS)
    const half = await given.create('half', { contentMs: CONTENT_MS }, SHORT_MS)
    await given.sealEvents(half, RESPONSE)
    await given.seal(await given.create('done', { contentMs: CONTENT_MS }, SHORT_MS), RESPONSE)
    const again = await given.reopened()
    await again.under.elapse(CONTENT_MS * 1.2)
    await checkExpired(again, 'done')
    await again.seal(await again.log.claim('open', 'heir', LONG_MS), RESPONSE)
    await again.sealProcessed(await again.log.claim('half', 'heir', LONG_MS))
    equal(await again.log.getResponse('open'), RESPONSE, 'the Response after the end')
    await again.under.elapse(CONTENT_MS * 1.2)
    for (const turnId of ['open', 'half']) await checkExpired(again, turnId)
  },
  'L10 a limit of content ends with its turn': async (given, log) => {
    for (const turnId of ['deleted', 'replaced']) {
      await given.seal(await given.create(turnId, { ...BRIEF, threadId: turnId }), RESPONSE)
    }
    await log.deleteTurn('deleted')
    await given.seal(await given.create('deleted', { threadId: 'deleted' }), RESPONSE)
    await given.createSealed('next', { threadId: 'replaced', replaces: 'replaced' })
    await given.under.elapse(CONTENT_MS * 1.2)
    equal((await log.getTurn('deleted'))?.contentMs, undefined, 'the limit of the next turn')
    equal(await log.getResponse('deleted'), RESPONSE, 'the Response of the next turn')
    equal((await given.read('deleted', 'events')).length, 2, 'the events of the next turn')
    await checkExpired(given, 'replaced')
    const [first] = (await log.listTurns('replaced', { replaced: true })).items
    equal([first?.replacedBy, first?.expired], ['next', true], 'a replaced turn')
    equal((await given.read('next', 'events')).length, 2, 'the events of its replacement')
  },
  'L10 content with a limit beyond the retention expires with the retention': withRetention(
    CONTENT_MS,
    async (given, log) => {
      await given.seal(await given.create('turn', { contentMs: LONG_MS }), RESPONSE)
      await given.under.elapse(CONTENT_MS * 1.2)
      await rejects(log.snapshot('turn'), 'TURN_EXPIRED', 'a snapshot')
      equal((await log.getTurn('turn'))?.expired, true, 'the record')
    },
  ),
  'L10 the record of a turn with a limit has no message of its error': async (given, log) => {
    const message = 'the prompt "my secret" was refused'
    for (const [turnId, contentMs, expected] of [
      ['kept', undefined, message],
      ['known', LONG_MS, 'The turn took too long'],
      ['foreign', LONG_MS, 'The provider reported an error'],
    ] as const) {
      const lease = await given.create(turnId, contentMs === undefined ? {} : { contentMs })
      const code = turnId === 'foreign' ? 'invalid_prompt' : 'TURN_TIME_LIMIT'
      const error = payloads.responseError({ code, message })
      const records = numbered([eventText(turnId, 1, error)])
      await given.append(lease, 'events', records, { seal: true })
      equal((await log.getTurn(turnId))?.error, { code, message: expected }, turnId)
      const [event] = await given.read(turnId, 'events')
      equal(event?.data.includes('my secret'), true, `the message in the log of ${turnId}`)
    }
  },
  'L10 a limit of content is a whole number of milliseconds from 1': async (given) => {
    for (const contentMs of [0, -1, 1.5, Number.NaN, Infinity]) {
      await rejects(given.create('turn', { contentMs }), 'RECORD_INVALID', `a limit ${contentMs}`)
    }
    equal(await given.log.getTurn('turn'), undefined, 'the turn')
  },
}
