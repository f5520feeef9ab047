import { EventStamp } from '../adapters/event-stamp.ts'
import { TRANSLATIONS, type VendorName } from '../adapters/read-events.ts'
import type { TranslationContext } from '../adapters/translation.ts'
import { type InputFault, VendorInput, VendorReader } from '../adapters/vendor-input.ts'
import { generateEventId } from '../protocol/ids.ts'
import type {
  ErrorObject,
  ItemType,
  StreamEvent,
  StreamEventPayload,
} from '../protocol/stream-event.ts'
import { isStreamEvent, normalizeEvent, streamEventFault } from '../protocol/stream-event-guard.ts'

export type SourceName = VendorName | 'v2'

export const SOURCE_NAMES: readonly SourceName[] = [
  ...(Object.keys(TRANSLATIONS) as VendorName[]),
  'v2',
]

/** Bytes in, StreamEvents out. */
export interface Source {
  readonly fault: InputFault | undefined
  feed(chunk: Uint8Array): readonly StreamEvent[]
  end(): readonly StreamEvent[]
}

type SourceOptions = Pick<TranslationContext, 'runId' | 'threadId' | 'now' | 'onUnknown'>

export function createSource(name: SourceName, options: SourceOptions): Source {
  if (name === 'v2') return new V2Source()
  const context = { ...options, turnId: options.runId, providerId: name, modelId: 'unknown' }
  const reader = new VendorReader(TRANSLATIONS[name](context))
  const stamp = new EventStamp({ now: options.now })
  return {
    get fault() {
      return reader.fault
    },
    feed: (chunk) => reader.feed(chunk).map((payload) => stamp.stamp(payload)),
    end: () => reader.end().map((payload) => stamp.stamp(payload)),
  }
}

const TERMINALS = new Set(['response_done', 'response_error', 'turn_aborted_by_user'])

/** Our own raw events as input: passed on as they are, and ended truthfully when they are not. */
export class V2Source implements Source {
  readonly #input = new VendorInput((event) => this.#take(event))
  readonly #openItems = new Map<string, ItemType>()
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

  #take(given: unknown): void {
    if (this.fault !== undefined) return
    const event = normalizeEvent(given, { startedType: (id) => this.#openItems.get(id) })
    const reason = streamEventFault(event)
    if (reason !== undefined) this.#badEvent = { at: this.#input.position, reason }
    else if (isStreamEvent(event)) this.#add(event)
  }

  #add(event: StreamEvent): void {
    const { payload } = event
    if (payload.type === 'item_start') this.#openItems.set(payload.item_id, payload.item_type)
    else if ('item_id' in payload && payload.type !== 'item_delta') {
      this.#openItems.delete(payload.item_id)
    }
    if (payload.type === 'response_start') this.#isOpen = true
    if (TERMINALS.has(payload.type)) this.#isOpen = false
    this.#last = event
    this.#events.push(event)
  }

  /** Ends what is open as an error. */
  #truncate(): void {
    if (this.#last === undefined) return
    const { run_id, trace_context, timestamp } = this.#last
    const error: ErrorObject =
      this.fault === undefined
        ? { code: 'UPSTREAM_TRUNCATED', message: 'The events stop before the end of the turn' }
        : { code: 'UPSTREAM_MALFORMED', message: this.fault.reason }
    const payloads: StreamEventPayload[] = [
      ...[...this.#openItems.keys()].map((item_id) => ({
        type: 'item_error' as const,
        item_id,
        error,
      })),
      { type: 'response_error', response_id: run_id, error },
    ]
    for (const payload of payloads) {
      const event_id = generateEventId()
      const { type } = payload
      this.#events.push({
        event_id,
        timestamp,
        trace_context,
        run_id,
        type,
        payload,
      } as StreamEvent)
    }
  }
}
