import { useCallback, useState } from 'react'
import type { Client } from '../client/client.ts'
import type { ClientError } from '../client/errors.ts'
import type { SubmitRequest } from '../client/submit.ts'
import type { Turn } from '../client/turn.ts'
import { refreshThreads } from './thread-list.ts'

export interface SubmitState {
  /** Submits a prompt, or a request with more than that. The same function until the client or the thread changes. */
  readonly submit: (request: string | SubmitRequest) => Turn
  /** Whether the gateway has not answered the last submit yet. */
  readonly isSubmitting: boolean
  /** Why the gateway refused the last submit. */
  readonly error: ClientError | undefined
  /** The turn of the last submit. */
  readonly turn: Turn | undefined
}

type Last = Omit<SubmitState, 'submit'> & { readonly threadId: string | undefined }

/**
 * Submits turns to a thread, or each to a new one. The prompt is in `useThread` at once, and is sent until the gateway
 * answers. A turn that the gateway refuses has status `error` there.
 *
 * @example
 * const { submit, error } = useSubmit(client, threadId)
 * <button onClick={() => submit('Hello')}>Say hello</button>
 * <button onClick={() => submit({ prompt: 'Hello', model: 'openai/gpt-5' })}>Say hello to GPT-5</button>
 */
export function useSubmit(client: Client, threadId?: string): SubmitState {
  const none: Last = { isSubmitting: false, error: undefined, turn: undefined, threadId }
  const [last, setLast] = useState(none)
  const submit = useCallback(
    (request: string | SubmitRequest): Turn => {
      const turn = client.submit({
        ...(threadId !== undefined && { threadId }),
        ...(typeof request === 'string' ? { prompt: request } : request),
      })
      setLast({ isSubmitting: true, error: undefined, turn, threadId })
      const settle = (error?: ClientError) => {
        const settled = { isSubmitting: false, error, turn, threadId }
        setLast((current) => (current.turn === turn ? settled : current))
      }
      turn.accepted().then(() => {
        settle()
        refreshThreads(client)
      }, settle)
      return turn
    },
    [client, threadId],
  )
  // Ignores results for another thread.
  const { isSubmitting, error, turn } = last.threadId === threadId ? last : none
  return { submit, isSubmitting, error, turn }
}
