import { OpenItems } from '../../items/open-items.ts'
import { generateEventId } from '../../protocol/ids.ts'
import type { ErrorObject, StreamEvent } from '../../protocol/stream-event.ts'
import {
  isStreamEvent,
  normalizeEvent,
  streamEventFault,
} from '../../protocol/stream-event-guard.ts'
import type { EventReader } from '../format.ts'
import { isTerminal } from '../translation.ts'
import { type InputFault, VendorInput } from '../vendor-input.ts'

/** Raw events as input: passed on unchanged, and ended as an error when truncated. */
export class V2Reader implements EventReader {
  readonly #input = new VendorInput((event) => this.#apply(event))
  readonly #openItems = new OpenItems()
  readonly #events: StreamEvent[] = []
  #last: StreamEvent | undefined
  #isOpen = false
  #badEvent: InputFault | undefined

  get fault(): InputFault | undefined {
    return this.#badEvent ?? this.#input.fault
  }

  feed(chunk: Uint8Array): readonly StreamEvent[] {
    this.#input.feed(chunk)
    return this.#events.splice(0)
  }

  end(): readonly StreamEvent[] {
    this.#input.end()
    if (this.#isOpen) this.#truncate()
    return this.#events.splice(0)
  }

  #apply(given: unknown): void {
    if (this.fault !== undefined) return
    const event = normalizeEvent(given, { started: this.#openItems.soFar })
    const reason = streamEventFault(event)
    if (reason !== undefined) this.#badEvent = { at: this.#input.position, reason }
    else if (isStreamEvent(event)) this.#add(event)
  }

  #add(event: StreamEvent): void {
    const { payload } = event
    this.#openItems.apply(payload)
    if (payload.type === 'response_start') this.#isOpen = true
    if (isTerminal(payload)) this.#isOpen = false
    this.#last = event
    this.#events.push(event)
  }

  #truncate(): void {
    if (this.#last === undefined) return
    const { run_id, trace_context, timestamp } = this.#last
    const error: ErrorObject =
      this.fault === undefined
        ? { code: 'UPSTREAM_TRUNCATED', message: 'The recording ends before the turn' }
        : { code: 'UPSTREAM_MALFORMED', message: this.fault.reason }
    const failed = this.#openItems.all.map(
      ({ start: { item_id } }) => ({ type: 'item_error', item_id, error }) as const,
    )
    const end = { type: 'response_error', response_id: run_id, error } as const
    for (const payload of [...failed, end]) {
      const event_id = generateEventId()
      const event = { event_id, timestamp, trace_context, run_id, type: payload.type, payload }
      this.#events.push(event as StreamEvent)
    }
  }
}
