/** Finds the thread that a request continues, and indexes turns by their content. */

import { type Clock, within } from '@turnstream/core/internal/async/clock'
import type { ListedTurn, TurnLog } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { ResponseItem } from '@turnstream/core/internal/protocol/response'
import { retainedMs } from '../log/keyed-records.ts'
import type { ThreadChain } from './thread-chain.ts'
import { earlierTurns } from './thread-history.ts'

/** How long the end of a turn may wait for its entry. */
const MAX_WAIT_MS = 1000

/** In place of a turn, where the same conversation took place in several threads: they may be of different users. */
const AMBIGUOUS = '-'

/** Failed turns after the one that a request continues. */
const MAX_RETRIES = 200

export type TurnPlace = Pick<ListedTurn, 'turnId' | 'threadId'>

/** Returns the newest turn that the request continues; undefined for none, or one in each of several threads. */
export async function findContinued(
  log: TurnLog,
  chain: ThreadChain,
): Promise<TurnPlace | undefined> {
  const { keys } = chain
  if (keys.length === 0) return undefined
  const notes = await log.keyedRecords.read(keys)
  const [threadId, turnId] = notes.find((note) => note !== undefined)?.split(' ') ?? []
  return threadId === undefined || turnId === undefined ? undefined : { threadId, turnId }
}

/** Returns whether the turn `next`, by default a new one, may follow: those between them failed or were cancelled. */
export async function canContinue(
  log: TurnLog,
  { threadId, turnId }: TurnPlace,
  next?: string,
): Promise<boolean> {
  let retries = 0
  for await (const turn of earlierTurns({ log, threadId, turnId: next })) {
    if (turn.turnId === turnId) return true
    const hasFailed = turn.status === 'error' || turn.status === 'aborted'
    if (!hasFailed || ++retries > MAX_RETRIES) return false
  }
  return false
}

export async function isRunning(log: TurnLog, threadId: string): Promise<boolean> {
  return (await newestTurn(log, threadId))?.status === 'in_progress'
}

export async function newestTurn(log: TurnLog, threadId: string): Promise<ListedTurn | undefined> {
  const { items } = await log.listTurns(threadId, { first: 'newest', limit: 1 })
  return items[0]
}

/** Returns the key of a turn from its answer; undefined if there is nothing to find it by. */
export type AnswerKey = (answer: readonly ResponseItem[]) => Promise<string | undefined>

export interface AnswerEntry extends TurnPlace {
  readonly log: TurnLog
  readonly clock: Clock
  readonly answerKey: AnswerKey
  readonly items: readonly ResponseItem[]
}

/** Records what a turn answered, so that `findContinued` finds it for as long as the turn is stored. Never rejects. */
export async function indexAnswer(
  entry: AnswerEntry,
  onError: (error: unknown) => void,
): Promise<void> {
  const toError = () =>
    new TurnstreamError('STORE_UNAVAILABLE', `the index entry of ${entry.turnId}`)
  const adding = addEntry(entry).catch(onError)
  await within(adding, MAX_WAIT_MS, entry.clock, toError).catch(onError)
}

async function addEntry({ log, answerKey, items, threadId, turnId }: AnswerEntry): Promise<void> {
  const key = await answerKey(items)
  if (key === undefined) return
  const [before] = await log.keyedRecords.read([key])
  const isFirst = before === undefined || before.startsWith(`${threadId} `)
  await log.keyedRecords.add(key, isFirst ? `${threadId} ${turnId}` : AMBIGUOUS, retainedMs(log))
}
