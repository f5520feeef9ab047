import { translateCodex } from '@turnstream/core/internal/formats/codex/read'
import { EventStamp } from '@turnstream/core/internal/formats/event-stamp'
import type { EventReader } from '@turnstream/core/internal/formats/format'
import { type InputFault, VendorInput } from '@turnstream/core/internal/formats/vendor-input'
import { isRecord } from '@turnstream/core/internal/protocol/json'
import type {
  StreamEvent,
  StreamEventPayload,
} from '@turnstream/core/internal/protocol/stream-event'

/**
 * Recorded notifications of a codex app-server as StreamEvents, in any of its grammars. An event gets the time at which
 * its notification was recorded, so that the recording can be played at its pace.
 */
export class NotificationSource implements EventReader {
  readonly #input = new VendorInput((message) => this.#take(message))
  readonly #translation: ReturnType<typeof translateCodex>
  readonly #stamp: EventStamp
  readonly #startedAt: number
  readonly #events: StreamEvent[] = []
  #time: number | undefined
  #hasBegun = false

  /** Times that count from the start of a recording are added to `startedAt`. */
  constructor(startedAt: number) {
    const runId = crypto.randomUUID()
    const now = (): number => this.#time ?? startedAt
    this.#startedAt = startedAt
    this.#stamp = new EventStamp({ runId, now })
    this.#translation = translateCodex({
      runId,
      turnId: runId,
      threadId: crypto.randomUUID(),
      providerId: 'codex',
      modelId: 'unknown',
      now,
    })
  }

  get fault(): InputFault | undefined {
    return this.#input.fault
  }

  feed(chunk: Uint8Array): readonly StreamEvent[] {
    this.#input.feed(chunk)
    return this.#events.splice(0)
  }

  /** None if the input held no turn. */
  end(): readonly StreamEvent[] {
    this.#input.end()
    if (this.#hasBegun) this.#add(this.#translation.end())
    return this.#events.splice(0)
  }

  #take(message: unknown): void {
    const time = this.#timeOf(message)
    // The clock of the recording may have been set back.
    if (time !== undefined) this.#time = Math.max(this.#time ?? time, time)
    this.#add(this.#translation.translate(message))
  }

  #add(payloads: readonly StreamEventPayload[]): void {
    this.#hasBegun ||= payloads.length > 0
    for (const payload of payloads) this.#events.push(this.#stamp.stamp(payload))
  }

  /** A recorder writes `t`, in milliseconds from its start; a current app-server `emittedAtMs`. */
  #timeOf(message: unknown): number | undefined {
    if (!isRecord(message)) return undefined
    const { t, emittedAtMs } = message
    if (typeof t === 'number') return this.#startedAt + t
    return typeof emittedAtMs === 'number' ? emittedAtMs : undefined
  }
}
