import { HEADERS } from '../protocol/names.ts'
import type { Submission, TurnInput } from '../turns/turn-request.ts'
import { RequestInvalidError } from './request-error.ts'
import type { SubmitBody } from './schemas/submit.ts'
import { type TraceHeaders, traceContextOf } from './trace-context.ts'

/** What may come with a submit besides its body. */
export interface SubmitHeaders extends TraceHeaders {
  readonly [HEADERS.idempotencyKey]?: string
}

/** A body as the turns take it. */
export function submissionOf(body: SubmitBody, headers: SubmitHeaders): Submission {
  const { prompt, input, model, providerId, agentId, threadId, turnId, runId, ...settings } = body
  const run = runOf(runId, headers[HEADERS.idempotencyKey])
  const traceContext = traceContextOf(headers)
  return {
    input: input ?? [messageOf(prompt ?? '')],
    settings,
    ...(model !== undefined && { model }),
    ...(providerId !== undefined && { providerId }),
    ...(agentId !== undefined && { agentId }),
    ...(threadId !== undefined && { threadId }),
    ...(turnId !== undefined && { turnId }),
    ...(run !== undefined && { runId: run }),
    ...(traceContext && { traceContext }),
  }
}

function messageOf(content: string): TurnInput {
  return { type: 'message', origin: 'user', content }
}

/** The key is the run of a body that names none. With two names nobody could tell which one counts. */
function runOf(runId: string | undefined, key: string | undefined): string | undefined {
  if (runId === undefined || key === undefined || runId === key) return runId ?? key
  throw new RequestInvalidError([
    { path: `headers.${HEADERS.idempotencyKey}`, message: 'differs from the runId of the body' },
  ])
}
