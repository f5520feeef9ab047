import type { ErrorObject, StreamEvent } from '../protocol/stream-event.ts'
import type { EventStamp } from './event-stamp.ts'
import type { Translation } from './translation.ts'
import { type InputFault, VendorInput, type VendorInputOptions } from './vendor-input.ts'

/** A vendor's bytes to StreamEvents: parse, translate, stamp. Waits for nothing. */
export class VendorReader {
  readonly #translation: Translation
  readonly #stamp: EventStamp
  readonly #input: VendorInput
  #events: StreamEvent[] = []
  #isOver = false

  constructor(translation: Translation, stamp: EventStamp, options: VendorInputOptions = {}) {
    this.#translation = translation
    this.#stamp = stamp
    this.#input = new VendorInput((event) => this.#add(translation.translate(event)), options)
  }

  /** Set when the input could not be read to its end; the last event says so, too. */
  get fault(): InputFault | undefined {
    return this.#input.fault
  }

  feed(chunk: Uint8Array): readonly StreamEvent[] {
    if (this.#isOver) return []
    this.#input.feed(chunk)
    return this.#input.fault === undefined ? this.#take() : this.end()
  }

  /** The bytes are over, or broke for the reason given: what is open ends truthfully. */
  end(fault?: ErrorObject): readonly StreamEvent[] {
    if (this.#isOver) return []
    this.#isOver = true
    if (fault === undefined) this.#input.end()
    this.#add(this.#translation.end(fault ?? malformed(this.#input.fault)))
    return this.#take()
  }

  #add(payloads: ReturnType<Translation['translate']>): void {
    for (const payload of payloads) this.#events.push(this.#stamp.stamp(payload))
  }

  #take(): readonly StreamEvent[] {
    const events = this.#events
    if (events.length > 0) this.#events = []
    return events
  }
}

function malformed(fault: InputFault | undefined): ErrorObject | undefined {
  if (fault === undefined) return undefined
  return {
    code: 'UPSTREAM_MALFORMED',
    message: `event ${fault.at} cannot be read: ${fault.reason}`,
  }
}
