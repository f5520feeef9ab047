import type { ErrorObject, StreamEventPayload } from '../protocol/stream-event.ts'
import type { Translation } from './translation.ts'
import { type InputFault, VendorInput, type VendorInputOptions } from './vendor-input.ts'

/** A vendor's bytes to payloads: parse and translate. Never waits. */
export class VendorReader {
  readonly #translation: Translation
  readonly #input: VendorInput
  #payloads: StreamEventPayload[] = []
  #isOver = false

  constructor(translation: Translation, options: VendorInputOptions = {}) {
    this.#translation = translation
    this.#input = new VendorInput((event) => this.#add(translation.translate(event)), options)
  }

  /** Set when the input is malformed; the last payload reports it, too. */
  get fault(): InputFault | undefined {
    return this.#input.fault
  }

  feed(chunk: Uint8Array): readonly StreamEventPayload[] {
    if (this.#isOver) return []
    this.#input.feed(chunk)
    return this.#input.fault === undefined ? this.#take() : this.end()
  }

  /** The input has ended, or failed for the reason given: what is open ends truthfully. */
  end(fault?: ErrorObject): readonly StreamEventPayload[] {
    if (this.#isOver) return []
    this.#isOver = true
    if (fault === undefined) this.#input.end()
    this.#add(this.#translation.end(fault ?? malformed(this.#input.fault)))
    return this.#take()
  }

  #add(payloads: readonly StreamEventPayload[]): void {
    for (const payload of payloads) this.#payloads.push(payload)
  }

  #take(): readonly StreamEventPayload[] {
    const payloads = this.#payloads
    if (payloads.length > 0) this.#payloads = []
    return payloads
  }
}

function malformed(fault: InputFault | undefined): ErrorObject | undefined {
  if (fault === undefined) return undefined
  return {
    code: 'UPSTREAM_MALFORMED',
    message: `event ${fault.at} cannot be read: ${fault.reason}`,
  }
}
