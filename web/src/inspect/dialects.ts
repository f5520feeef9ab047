import { systemClock } from '../../../packages/core/src/async/clock.ts'
import type { EventWriter, TargetFormat } from '../../../packages/core/src/formats/format.ts'
import {
  TARGET_NAMES,
  TARGETS,
  type TargetName,
} from '../../../packages/core/src/formats/registry.ts'
import { xapiSse } from '../../../packages/core/src/formats/xapi/write.ts'
import type { Recording } from './recording.ts'

export type Dialect = TargetName

/** What clients are sent. A Response is not a stream. */
export const DIALECTS: readonly Dialect[] = TARGET_NAMES.filter((name) => name !== 'response')

/** What a client is sent, frame by frame. Only frames that are new since the last call are encoded. */
export class DialectFrames {
  readonly #recording: Recording
  readonly #format: TargetFormat
  /** The processor has written the snapshots already. */
  readonly #isSnapshots: boolean
  /** Each frame, how many events it needs, and how many bytes were sent with it. */
  readonly frames: string[] = []
  readonly eventsOf: number[] = []
  readonly bytes: number[] = []
  #writer: EventWriter | undefined
  #encoded = 0

  constructor(recording: Recording, dialect: Dialect) {
    this.#recording = recording
    this.#format = TARGETS[dialect]
    this.#isSnapshots = dialect === 'xapi'
  }

  update(): void {
    const { events, emissions } = this.#recording
    const { length } = this.#isSnapshots ? emissions : events
    for (; this.#encoded < length; this.#encoded++) {
      if (this.#isSnapshots) this.#addSnapshot(this.#encoded)
      else this.#addEvent(this.#encoded)
    }
  }

  #addEvent(index: number): void {
    const event = this.#recording.events[index]
    if (event === undefined) return
    if (event.type === 'response_start') {
      this.#writer ??= this.#format(event.payload, {
        write: (frame) => this.#push(frame, this.#encoded + 1),
        json: false,
        includeUsage: false,
        clock: systemClock,
        nextOffset: () => this.#recording.offsets[this.#encoded] ?? '',
      })
    }
    void this.#writer?.event(event)
  }

  /** The offset of a snapshot is given by the store, so it is not known here. */
  #addSnapshot(index: number): void {
    const emission = this.#recording.emissions[index]
    if (emission === undefined) return
    this.#push(xapiSse(`…/${index + 1}`, JSON.stringify(emission.output)), emission.events)
  }

  #push(frame: string, events: number): void {
    this.frames.push(frame)
    this.eventsOf.push(events)
    this.bytes.push((this.bytes.at(-1) ?? 0) + utf8Length(frame))
  }
}

const utf8 = new TextEncoder()

function utf8Length(text: string): number {
  return utf8.encode(text).length
}
