import { TurnstreamError } from '../../protocol/errors.ts'
import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import { checkAnswer, MAX_APPROVALS, tooManyAnswers } from '../approvals.ts'
import { checkEpoch, turnGone } from '../rules.ts'
import type { ApprovalAnswer, ApprovalResult, Lease } from '../turn-log.ts'
import type { RedisClient } from './client.ts'
import type { RedisKeys } from './keys.ts'
import { corrupt, text } from './replies.ts'
import { ANSWER_APPROVAL } from './scripts/turn.ts'
import { checkNotExpired, type TurnRecords } from './turn-records.ts'

/** Answers to approvals, in the slot of their turn. */
export class TurnApprovals {
  readonly #keys: RedisKeys
  readonly #client: RedisClient
  readonly #records: TurnRecords

  constructor(keys: RedisKeys, client: RedisClient, records: TurnRecords) {
    this.#keys = keys
    this.#client = client
    this.#records = records
  }

  async answer(
    turnId: string,
    approvalId: string,
    answer: ApprovalAnswer,
  ): Promise<ApprovalResult> {
    checkAnswer(approvalId, answer)
    const { creation, events, ...rest } = await this.#records.existing(turnId)
    if (events.state.sealed) {
      checkNotExpired(turnId, { creation, events, ...rest })
      const before = await this.#read(turnId, approvalId)
      return { stored: false, ...(before && { answer: before }) }
    }
    // Tells a repeated call from another answer.
    const nonce = crypto.randomUUID()
    const { meta, approvals } = this.#keys.turn(turnId)
    const args = [creation, approvalId, JSON.stringify({ ...answer, nonce }), MAX_APPROVALS]
    const reply = text(await this.#client.run(ANSWER_APPROVAL, [meta, approvals], args))
    if (reply === 'gone') throw new TurnstreamError('TURN_UNKNOWN', turnId)
    if (reply === 'full') throw tooManyAnswers()
    if (reply === 'cancelled') return { stored: false }
    const stored = parseAnswer(reply)
    return { stored: stored.nonce === nonce, answer: stored.answer }
  }

  /** The stored answer, for the owner of the turn. */
  async find(lease: Lease, approvalId: string): Promise<ApprovalAnswer | undefined> {
    const { turnId } = lease
    const [seen, answer] = await Promise.all([
      this.#records.processed(turnId),
      this.#read(turnId, approvalId),
    ])
    if (seen?.creation !== lease.creation) throw turnGone(turnId)
    checkEpoch(seen.state, lease)
    return answer
  }

  async #read(turnId: string, approvalId: string): Promise<ApprovalAnswer | undefined> {
    const { approvals } = this.#keys.turn(turnId)
    const found = await this.#client.command('HGET', approvals, approvalId)
    return typeof found === 'string' ? parseAnswer(found).answer : undefined
  }
}

function parseAnswer(json: string): { answer: ApprovalAnswer; nonce: unknown } {
  const parsed = parseJsonSafe(json)
  if (!isRecord(parsed) || typeof parsed['approved'] !== 'boolean') {
    throw corrupt('invalid answer to an approval')
  }
  const { nonce, ...answer } = parsed
  // Written by this package.
  return { answer: answer as unknown as ApprovalAnswer, nonce }
}
