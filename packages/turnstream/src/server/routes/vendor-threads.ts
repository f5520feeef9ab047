import type { Submission } from '@turnstream/core/internal/formats/submission'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { hasCode } from '@turnstream/core/internal/protocol/errors'
import { THREAD_HEADERS } from '@turnstream/core/internal/protocol/names'
import type { Context } from 'hono'
import * as z from 'zod'
import { ThreadChain } from '../../turns/thread-chain.ts'
import { canContinue, findContinued, isRunning, type TurnPlace } from '../../turns/thread-index.ts'
import type { Submitted } from '../../turns/turn-request.ts'
import type { SubmitOptions } from '../../turns/turn-runner.ts'
import type { GatewayContext, GatewayEnv } from '../context.ts'
import * as spec from './spec.ts'
import { startTurn } from './submit.ts'

const threadHeader = spec.optional(
  z.string(),
  'The thread of the turn. Ignored if it is not a valid id, or while the thread is running',
)

export const threadHeadersSchema = z.object({
  [THREAD_HEADERS[0]]: threadHeader,
  [THREAD_HEADERS[1]]: threadHeader,
  [THREAD_HEADERS[2]]: threadHeader,
})

type ThreadHeaders = z.infer<typeof threadHeadersSchema>

/** What a request says about its thread. */
interface ThreadRequest {
  readonly headers: ThreadHeaders
  /** The turn of `previous_response_id`. */
  readonly previous: TurnPlace | undefined
}

/** Starts the turn of a request in the thread that the request continues. Never THREAD_BUSY. */
export async function startInThread(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  submission: Submission,
  { headers, previous }: ThreadRequest,
): Promise<Submitted> {
  const { history = [], input, settings } = submission
  const chain = await ThreadChain.read([...history, ...input], settings?.user)
  const { log } = c.get('space')
  const place = await choosePlace(log, headers, () => previous ?? findContinued(log, chain))
  const { answerKey } = chain
  const requestHash = c.get('repeated')?.keys[0]
  const options = { acceptsAnyOutput: true, answerKey, requestHash }
  if (place === undefined) return startTurn(c, context, submission, options)
  try {
    return await startTurn(c, context, submission, { ...options, ...place })
  } catch (error) {
    // Another request was faster.
    if (!hasCode(error, 'THREAD_BUSY')) throw error
    return startTurn(c, context, submission, options)
  }
}

/** Undefined for a new thread, also if the turn would not be the next of its thread. */
async function choosePlace(
  log: TurnLog,
  headers: ThreadHeaders,
  findBefore: () => TurnPlace | undefined | Promise<TurnPlace | undefined>,
): Promise<Pick<SubmitOptions, 'threadId' | 'follows'> | undefined> {
  const named = namedThread(headers)
  if (named !== undefined && !(await isRunning(log, named))) return { threadId: named }
  const before = await findBefore()
  if (before === undefined || !(await canContinue(log, before))) return undefined
  const { threadId, turnId: follows } = before
  return { threadId, follows }
}

/** Agents send these headers with every request, so an invalid one is ignored. */
function namedThread(headers: ThreadHeaders): string | undefined {
  const ids = THREAD_HEADERS.map((name) => headers[name])
  return ids.find((id) => spec.headerId.safeParse(id).success)
}
