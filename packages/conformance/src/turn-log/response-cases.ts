import { equal, rejects } from './assert.ts'
import { type Cases, LONG_MS, RETENTION_MS, SHORT_MS, withRetention } from './given.ts'
import { readAll } from './reading.ts'
import { both } from './tenants.ts'
import { deltas, eventsUpTo, outputsOf } from './texts.ts'

const LONG_RETENTION_MS = 2 * RETENTION_MS

/** JSON that a store might be tempted to normalize. */
const RESPONSE = ' {"id":"run","text":"aé漢😀\u2028 \\ud83d\\u0000","n":1.0}\n'

/** The Response of a turn, stored by the append that seals `events`. */
export const responseCases: Cases = {
  'L15 the Response is returned character for character once events is sealed': async (given) => {
    const { log } = given
    equal(await log.getResponse('turn'), undefined, 'before the turn exists')
    const lease = await given.create('turn', { runId: 'run' })
    await given.append(lease, 'events', deltas('run', 1, 300).slice(0, 256))
    equal(await log.getResponse('turn'), undefined, 'while the turn runs')
    equal((await log.getTurn('turn'))?.responseBytes, undefined, 'the size while the turn runs')
    const rest = eventsUpTo('run', 300, 257)
    await given.append(lease, 'events', rest, { seal: true, response: RESPONSE })
    equal(await log.getResponse('turn'), RESPONSE, 'after the seal of events')
    const responseBytes = new TextEncoder().encode(RESPONSE).length
    equal((await log.getTurn('turn'))?.responseBytes, responseBytes, 'its size')
    await given.append(lease, 'processed', outputsOf('turn', 'a'), { seal: true })
    equal(await log.getResponse('turn'), RESPONSE, 'after the seal of both logs')
    equal((await given.read('turn', 'events')).length, 300, 'the number of events')
  },
  'L15 a turn sealed without a Response has none': async (given) => {
    await given.createSealed('turn')
    equal(await given.log.getResponse('turn'), undefined, 'the Response')
    equal((await given.log.getTurn('turn'))?.responseBytes, undefined, 'its size')
  },
  'L15 a Response of several megabytes comes back complete': async (given) => {
    const lease = await given.create('turn')
    const response = JSON.stringify({ text: '漢字 kana '.repeat(300_000) })
    await given.sealEvents(lease, response)
    equal(await given.log.getResponse('turn'), response, 'the Response')
  },
  'L15 a Response without the seal of events is RECORD_INVALID': async (given, log) => {
    const lease = await given.create('turn')
    const response = RESPONSE
    const outputs = outputsOf('turn', 'a')
    const processed = given.append(lease, 'processed', outputs, { seal: true, response })
    await rejects(processed, 'RECORD_INVALID', 'the seal of processed')
    await rejects(given.sealEvents(lease, '"\ud83d"'), 'RECORD_INVALID', 'half a character')
    await given.sealEvents(lease, RESPONSE)
    equal(await log.getResponse('turn'), RESPONSE, 'the Response')
  },
  'L15 a repeated seal keeps the first Response': async (given) => {
    const lease = await given.create('turn')
    await given.sealEvents(lease, RESPONSE)
    await given.sealEvents(lease, '"other"')
    equal(await given.log.getResponse('turn'), RESPONSE, 'the Response')
    await given.sealEvents(await given.create('bare'), '""')
    equal(await given.log.getResponse('bare'), '""', 'an empty Response')
  },
  'L15 a seal whose records are already stored adds the Response': async (given) => {
    const lease = await given.create('turn')
    await given.append(lease, 'events', eventsUpTo('turn', 2))
    await given.sealEvents(lease, RESPONSE)
    equal(await given.log.getResponse('turn'), RESPONSE, 'the Response')
  },
  'L15 a lost lease stores no Response, but the new owner does': async (given, log) => {
    const lost = await given.createOrphan('turn')
    const heir = await log.claim('turn', 'heir', LONG_MS)
    await rejects(given.sealEvents(lost, '"lost"'), 'LEASE_LOST', 'the seal of the old lease')
    equal(await log.getResponse('turn'), undefined, 'the Response before the seal')
    await given.sealEvents(heir, RESPONSE)
    equal(await log.getResponse('turn'), RESPONSE, 'the Response')
  },
  'L15 a claim after the seal of events keeps the Response': async (given, log) => {
    const lease = await given.create('turn', {}, SHORT_MS)
    await given.sealEvents(lease, RESPONSE)
    await given.under.elapse(SHORT_MS)
    const heir = await log.claim('turn', 'heir', LONG_MS)
    await given.append(heir, 'processed', outputsOf('turn', 'a'), { seal: true })
    equal(await log.getResponse('turn'), RESPONSE, 'the Response')
  },
  'L15 the Response is visible in other processes and survives a restart': async (given) => {
    await given.seal(await given.create('turn'), RESPONSE)
    const other = await given.elsewhere()
    equal(await other.log.getResponse('turn'), RESPONSE, 'in another')
    const again = await given.reopened()
    equal(await again.log.getResponse('turn'), RESPONSE, 'after a restart')
  },
  'L15 the Response is deleted with its turn, so a recreated one has none': async (given, log) => {
    const turn = { threadId: 'thread', runId: 'run' }
    await given.seal(await given.create('turn', turn), RESPONSE)
    await log.deleteTurn('turn')
    equal(await log.getResponse('turn'), undefined, 'after deleteTurn')
    const lease = await given.create('turn', turn)
    equal(await log.getResponse('turn'), undefined, 'of the next turn while it runs')
    await given.seal(lease, '"next"')
    equal(await log.getResponse('turn'), '"next"', 'of the next turn')
    await log.deleteThread('thread')
    equal(await log.getResponse('turn'), undefined, 'after deleteThread')
    await given.createSealed('turn', turn)
    equal(await log.getResponse('turn'), undefined, 'of a turn without one')
  },
  'L15 the Response expires with the logs of its turn': withRetention(
    LONG_RETENTION_MS,
    async (given, log) => {
      const half = await given.create('half')
      await given.sealEvents(half, RESPONSE)
      await given.seal(await given.create('done'), RESPONSE)
      equal(await log.getResponse('done'), RESPONSE, 'before')
      await given.under.elapse(LONG_RETENTION_MS * 1.5)
      await rejects(readAll(given.tail('done', 'events')), 'TURN_EXPIRED', 'a tail of events')
      equal((await log.getTurn('done'))?.expired, true, 'the record')
      equal(await log.getResponse('done'), undefined, 'the Response')
      equal(await log.getResponse('half'), RESPONSE, 'the Response of a turn that has not ended')
    },
  ),
  'L13 L15 a tenant gets only the Responses of its own turns': async (given) => {
    const [first, second] = both(given)
    await first.seal(await first.create('turn', { runId: 'run' }), '"first"')
    equal(await second.log.getResponse('turn'), undefined, 'of another tenant')
    await second.seal(await second.create('turn', { runId: 'run' }), '"second"')
    equal(await first.log.getResponse('turn'), '"first"', 'of the first')
    equal(await second.log.getResponse('turn'), '"second"', 'of the second')
    await first.log.deleteTurn('turn')
    equal(await second.log.getResponse('turn'), '"second"', 'after the other was deleted')
  },
}
