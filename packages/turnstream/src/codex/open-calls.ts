import type { Clock } from '@turnstream/core/internal/async/clock'
import { IdleTimer } from '@turnstream/core/internal/async/idle-timer'
import { isRecord } from '@turnstream/core/internal/protocol/json'
import type { Incoming, Params } from './connection.ts'

const CALL = 'item/tool/call'
const RESPONSE_END = 'rawResponse/completed'
const NOT_RUN = {
  contentItems: [{ type: 'inputText', text: 'The tool was not run' }],
  success: false,
}

/**
 * Calls of client tools stay open until the end of the response, which is the end of the turn. codex reports a response
 * that broke off only when its calls are answered, so they fail after a silence.
 */
export class OpenCalls {
  readonly #silence: IdleTimer
  readonly #open = new Map<string | number, unknown>()
  readonly #answered = new Set<unknown>()
  #hasResponseEnded = false

  constructor(
    quietMs: number,
    clock: Clock,
    respond: (id: string | number, result: Params) => void,
  ) {
    this.#silence = new IdleTimer(quietMs, clock, () => {
      for (const [id, callId] of this.#open) {
        this.#answered.add(callId)
        respond(id, NOT_RUN)
      }
      this.#open.clear()
    })
  }

  /** Takes each message when it arrives. Returns whether it is a call. */
  apply({ method, id, params }: Incoming): boolean {
    const isCall = method === CALL
    if (method === RESPONSE_END) {
      this.#hasResponseEnded = true
      this.#open.clear()
    } else if (isCall && id !== undefined && !this.#hasResponseEnded) {
      this.#open.set(id, params['callId'])
    }
    if (this.#open.size > 0) this.#silence.startWait()
    else this.#silence.endWait()
    return isCall
  }

  /** Whether a message repeats an answer of ours: it is not a result. */
  isEcho({ method, params: { item } }: Incoming): boolean {
    if (!isRecord(item)) return false
    if (method === 'item/completed') return this.#answered.has(item['id'])
    return item['type'] === 'function_call_output' && this.#answered.has(item['call_id'])
  }

  stop(): void {
    this.#silence.stop()
  }
}
