import { TurnstreamError } from '../protocol/errors.ts'
import { checkId } from './records.ts'
import type { ApprovalAnswer } from './turn-log.ts'

/** Maximum number of answers that a turn stores. */
export const MAX_APPROVALS = 100

/** Maximum length of reason and key name together. */
const MAX_ANSWER_CHARS = 2000

/** Answers by approval, oldest first. */
export type Approvals = readonly (readonly [approvalId: string, answer: ApprovalAnswer])[]

export const NO_APPROVALS: Approvals = []

/** Throws RECORD_INVALID for an answer that no store accepts. */
export function checkAnswer(approvalId: string, { reason = '', by = '' }: ApprovalAnswer): void {
  checkId('approvalId', approvalId)
  const { length } = reason + by
  if (length <= MAX_ANSWER_CHARS) return
  const detail = `reason and key name have ${length} characters; the limit is ${MAX_ANSWER_CHARS}`
  throw new TurnstreamError('RECORD_INVALID', detail)
}

export function findAnswer(
  approvals: Approvals | undefined,
  approvalId: string,
): ApprovalAnswer | undefined {
  return approvals?.find(([id]) => id === approvalId)?.[1]
}

export function addAnswer(
  approvals: Approvals = NO_APPROVALS,
  approvalId: string,
  answer: ApprovalAnswer,
): Approvals {
  if (approvals.length >= MAX_APPROVALS) throw tooManyAnswers()
  return [...approvals, [approvalId, answer]]
}

export function tooManyAnswers(): TurnstreamError {
  const detail = `a turn stores at most ${MAX_APPROVALS} answers to approvals`
  return new TurnstreamError('RECORD_INVALID', detail)
}
