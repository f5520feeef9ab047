import type { ApprovalAnswer } from '../../log/turn-log.ts'
import { appendTo } from './append.ts'
import { equal, rejects } from './assert.ts'
import { type Case, LONG_MS, SHORT_MS, soon } from './given.ts'
import { eventsUpTo } from './texts.ts'

// Not every store can fast-forward time, and a busy machine needs some slack.
const RETENTION_MS = 1000

const YES: ApprovalAnswer = { approved: true, by: 'ops', at: 1 }
const NO: ApprovalAnswer = { approved: false, reason: 'not today', at: 2 }

/** Answers to the approvals of a turn. */
export const approvalCases: readonly Case[] = [
  {
    name: 'V8 the owner gets the answer to an approval while it waits',
    async run(given) {
      const lease = await given.create('turn')
      const first = soon(given.log.approvalAnswer(lease, 'one', given.signal))
      const second = soon(given.log.approvalAnswer(lease, 'two', given.signal))
      const stored = await given.log.answerApproval('turn', 'two', NO)
      equal(stored, { stored: true, answer: NO }, 'the result')
      equal(await second, NO, 'the answer to the second')
      await given.log.answerApproval('turn', 'one', YES)
      equal(await first, YES, 'the answer to the first')
    },
  },
  {
    name: 'V8 the owner gets an answer from before it waited, as often as it asks',
    async run(given) {
      const lease = await given.create('turn')
      await given.log.answerApproval('turn', 'one', YES)
      for (let time = 0; time < 2; time++) {
        equal(await given.log.approvalAnswer(lease, 'one', given.signal), YES, 'the answer')
      }
    },
  },
  {
    name: 'V8 the first answer wins, and later ones get it',
    async run(given) {
      const lease = await given.create('turn')
      await given.log.answerApproval('turn', 'one', NO)
      const second = await given.log.answerApproval('turn', 'one', YES)
      equal(second, { stored: false, answer: NO }, 'the second result')
      const same = await given.log.answerApproval('turn', 'one', NO)
      equal(same, { stored: false, answer: NO }, 'the result of the same answer again')
      equal(await given.log.approvalAnswer(lease, 'one', given.signal), NO, 'the answer')
    },
  },
  {
    name: 'V8 of many answers at the same time, from several processes, one is stored',
    async run(given) {
      const other = (await given.under.another?.()) ?? given.log
      const lease = await given.create('turn')
      const answers = Array.from({ length: 20 }, (_, at) => ({ approved: at % 2 === 0, at: 7 }))
      const results = await Promise.all(
        answers.map((answer, at) =>
          (at % 3 === 0 ? other : given.log).answerApproval('turn', 'one', answer),
        ),
      )
      equal(results.filter(({ stored }) => stored).length, 1, 'the number of stored answers')
      const winner = await given.log.approvalAnswer(lease, 'one', given.signal)
      for (const { answer } of results) equal(answer, winner, 'the answer that a caller gets')
    },
  },
  {
    name: 'V8 a cancelled turn and a sealed log take no more answers, and keep earlier ones',
    async run(given) {
      await given.create('cancelled')
      await given.log.answerApproval('cancelled', 'one', YES)
      await given.log.requestCancel('cancelled', '')
      const lease = await given.create('sealed')
      await given.log.answerApproval('sealed', 'one', YES)
      await appendTo(given.log, lease, 'events', eventsUpTo('sealed', 2), { seal: true })
      for (const turnId of ['cancelled', 'sealed']) {
        const late = await given.log.answerApproval(turnId, 'two', YES)
        equal(late, { stored: false }, `an answer to a ${turnId} turn`)
        const before = await given.log.answerApproval(turnId, 'one', NO)
        equal(before, { stored: false, answer: YES }, `the answer before it was ${turnId}`)
      }
      await rejects(given.log.answerApproval('other', 'one', YES), 'TURN_UNKNOWN', 'no turn')
    },
  },
  {
    name: 'V8 the next owner gets the answer too',
    async run(given) {
      await given.createOrphan('turn')
      await given.log.answerApproval('turn', 'one', YES)
      const lease = await given.log.claim('turn', 'heir', LONG_MS)
      equal(await given.log.approvalAnswer(lease, 'one', given.signal), YES, 'the answer')
    },
  },
  {
    name: 'V8 waiting for an answer rejects with ABORTED when its signal aborts',
    async run(given) {
      const lease = await given.create('turn')
      const waiting = new AbortController()
      const heard = soon(given.log.approvalAnswer(lease, 'one', waiting.signal))
      waiting.abort()
      await rejects(heard, 'ABORTED', 'waiting')
      const aborted = AbortSignal.abort()
      await rejects(given.log.approvalAnswer(lease, 'one', aborted), 'ABORTED', 'waiting in vain')
    },
  },
  {
    name: 'V8 waiting for an answer rejects with LEASE_LOST when the turn is claimed or deleted',
    async run(given) {
      const old = await given.createOrphan('turn')
      const heard = soon(given.log.approvalAnswer(old, 'one', given.signal))
      const lease = await given.log.claim('turn', 'heir', LONG_MS)
      await rejects(heard, 'LEASE_LOST', 'waiting with the old lease')
      await given.log.answerApproval('turn', 'one', YES)
      const again = given.log.approvalAnswer(old, 'one', given.signal)
      await rejects(again, 'LEASE_LOST', 'an answer for the old lease')
      const gone = soon(given.log.approvalAnswer(lease, 'two', given.signal))
      await given.log.deleteTurn('turn')
      await rejects(gone, 'LEASE_LOST', 'waiting with a deleted turn')
    },
  },
  {
    name: 'V8 a recreated turn has none of the answers of the deleted one',
    async run(given) {
      await given.create('turn')
      await given.log.answerApproval('turn', 'one', YES)
      await given.log.deleteTurn('turn')
      await rejects(given.log.answerApproval('turn', 'one', NO), 'TURN_UNKNOWN', 'a deleted turn')
      await given.create('turn')
      equal((await given.log.answerApproval('turn', 'one', NO)).stored, true, 'the new answer')
    },
  },
  {
    name: 'V8 an answer expires with the logs of its turn',
    retentionMs: RETENTION_MS,
    async run(given) {
      const lease = await given.create('turn')
      await given.log.answerApproval('turn', 'one', YES)
      await given.seal(lease)
      await given.under.elapse(RETENTION_MS + 200)
      const late = given.log.answerApproval('turn', 'one', NO)
      await rejects(late, 'TURN_EXPIRED', 'an answer to an expired turn')
    },
  },
  {
    name: 'V8 a turn stores 100 answers, each with at most 2,000 characters',
    async run(given) {
      await given.create('turn')
      const reason = 'r'.repeat(1990)
      for (let at = 1; at <= 100; at++) {
        const answer = { approved: true, reason, by: 'b'.repeat(10), at }
        await given.log.answerApproval('turn', `approval-${at}`, answer)
      }
      const more = given.log.answerApproval('turn', 'approval-101', YES)
      await rejects(more, 'RECORD_INVALID', 'answer 101')
      const long = given.log.answerApproval('turn', 'one', { ...YES, reason: `${reason}12345678` })
      await rejects(long, 'RECORD_INVALID', 'a long reason')
      const unnamed = given.log.answerApproval('turn', 'white space', YES)
      await rejects(unnamed, 'RECORD_INVALID', 'an invalid id')
      const known = await given.log.answerApproval('turn', 'approval-100', YES)
      equal([known.stored, known.answer?.at], [false, 100], 'an answer at the limit')
    },
  },
  {
    name: 'V8 answers survive a restart',
    async run(given) {
      if (given.under.reopen === undefined) return
      await given.create('turn', {}, SHORT_MS)
      await given.log.answerApproval('turn', '__proto__', NO)
      const log = await given.under.reopen()
      const again = await log.answerApproval('turn', '__proto__', YES)
      equal(again, { stored: false, answer: NO }, 'the result after a restart')
    },
  },
  {
    name: 'V8 approvals of the same turn of two tenants are apart',
    async run(given) {
      const beta = given.ofTenant('beta')
      const lease = await given.create('turn')
      const kept = await beta.create('turn')
      const waits = new AbortController()
      const heard = soon(beta.log.approvalAnswer(kept, 'one', waits.signal))
      await given.log.answerApproval('turn', 'one', YES)
      equal(await given.log.approvalAnswer(lease, 'one', given.signal), YES, 'the answer')
      equal((await beta.log.answerApproval('turn', 'two', NO)).stored, true, 'the other answer')
      waits.abort()
      await rejects(heard, 'ABORTED', 'waiting in the other tenant')
    },
  },
  {
    name: 'V8 the owner gets an answer from another process within a second',
    async run(given) {
      const other = await given.under.another?.()
      if (other === undefined) return
      for (const turnId of ['turn-1', 'turn-2', 'turn-3']) {
        const lease = await given.create(turnId)
        const heard = soon(given.log.approvalAnswer(lease, 'one', given.signal))
        await other.answerApproval(turnId, 'one', YES)
        const answeredAt = Date.now()
        equal(await heard, YES, 'the answer')
        const took = Date.now() - answeredAt
        equal(took <= 1000, true, `that ${took} ms are a second at most`)
      }
    },
  },
]
