import { anyOf, onAbort } from '@turnstream/core/internal/async/on-abort'
import type { Submission, TurnInput } from '@turnstream/core/internal/formats/submission'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import type { StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import { START } from '../log/offsets.ts'
import type { GatewayContext, TenantSpaces } from './context.ts'

/** A turn to run. It needs a prompt or an input. */
export interface RunRequest extends Omit<Submission, 'input'> {
  /** Shorthand for one user message. */
  readonly prompt?: string
  readonly input?: readonly TurnInput[]
  /** Owner of the turn. Default `default`. */
  readonly tenant?: string
  readonly signal?: AbortSignal
}

type RunDeps = Pick<GatewayContext, 'turns' | 'closing'> & { readonly spaces: TenantSpaces }

/**
 * Starts a turn and yields its snapshots to its end, which may be an error or a cancel. Leaving the loop does not stop
 * the turn. Throws the error of a submit, the reason of an aborted `signal`, or SERVER_SHUTDOWN.
 */
export async function* runTurn(
  request: RunRequest,
  { turns, spaces, closing }: RunDeps,
): AsyncGenerator<StreamOutput, void> {
  const { tenant = DEFAULT_TENANT, signal, prompt, ...submission } = request
  const message = { type: 'message', origin: 'user', content: prompt ?? '' } as const
  const input = prompt === undefined ? submission.input : [message]
  if (input === undefined) {
    throw new TurnstreamError('REQUEST_INVALID', 'a run needs a prompt or an input')
  }
  signal?.throwIfAborted()
  const { log, newTurns } = spaces.of(tenant)
  const { turnId, threadId } = await turns.submit({ ...submission, input }, { tenant })
  newTurns.announce(threadId)
  const cancel = () => {
    // A turn that cannot be cancelled has ended, or its store fails: the reader below gets that error, too.
    turns.cancel(turnId, 'cancelled by the caller', tenant).catch(() => {})
  }
  const release = signal && onAbort(signal, cancel)
  if (signal?.aborted) cancel()
  const left = new AbortController()
  const reading = anyOf([left.signal, closing])
  const seen = new Set<string>()
  try {
    for await (const record of log.tail(turnId, 'processed', START, reading.signal)) {
      if (!('output' in record)) continue
      const { output, key } = record
      // The log skips superseded snapshots, and with them the first one of an item.
      const isFirst = 'itemId' in output && output.status === 'update' && !seen.has(key)
      seen.add(key)
      yield isFirst ? { ...output, status: 'create' } : output
      if (output.type === 'turn_complete' || output.type === 'turn_error') return
    }
    throw new TurnstreamError('SERVER_SHUTDOWN', 'the turn is still running')
  } finally {
    left.abort()
    reading.release()
    release?.()
  }
}
