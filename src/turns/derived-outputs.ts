import { isRecord, parseJsonSafe } from '../protocol/json.ts'
import type {
  ItemSnapshot,
  StreamOutput,
  TurnComplete,
  TurnError,
} from '../protocol/stream-output.ts'

/** What a snapshot is a snapshot of, as in the log `processed`. */
function keyOf(output: StreamOutput): string {
  return 'itemId' in output ? output.itemId : output.type
}

/**
 * Takes the outputs that the events of a turn lead to, and keeps those that the log `processed` lacks.
 * Of each item only the last counts: on the way there it may pass through what readers saw long ago.
 */
export class DerivedOutputs {
  readonly #stored: ReadonlyMap<string, string>
  readonly #missing = new Map<string, StreamOutput>()
  ending: TurnComplete | TurnError | undefined

  /** `stored` is the newest record of every key. */
  constructor(stored: ReadonlyMap<string, string>) {
    this.#stored = stored
  }

  take(output: StreamOutput): void {
    if (output.type === 'turn_complete' || output.type === 'turn_error') {
      this.ending = output
      return
    }
    const key = keyOf(output)
    const stored = this.#stored.get(key)
    if (stored === undefined && isUnseen(output)) {
      this.#missing.delete(key)
    } else if (stored === undefined) {
      this.#missing.set(key, isGrowing(output) ? { ...output, status: 'create' } : output)
    } else if (saysTheSame(stored, output)) {
      this.#missing.delete(key)
    } else {
      this.#missing.set(key, isGrowing(output) ? { ...output, status: 'update' } : output)
    }
  }

  /** By key, in the order in which they were first missing. */
  get missing(): ReadonlyMap<string, StreamOutput> {
    return this.#missing
  }
}

/** How often a growing text was shown depends on the hour: `create` is what readers see first. */
function isGrowing(output: StreamOutput): output is ItemSnapshot {
  return 'itemId' in output && (output.status === 'create' || output.status === 'update')
}

/** A text that was cancelled before anybody saw it is never shown. */
function isUnseen(output: StreamOutput): boolean {
  return (
    'errorCode' in output && output.errorCode === 'ITEM_CANCELLED' && output.type !== 'tool_call'
  )
}

function saysTheSame(stored: string, output: StreamOutput): boolean {
  if (!isGrowing(output)) return stored === JSON.stringify(output)
  const before = parseJsonSafe(stored)
  if (!isRecord(before)) return false
  const { status } = before
  const isSameStage = status === 'create' || status === 'update'
  return isSameStage && stored === JSON.stringify({ ...output, status })
}
