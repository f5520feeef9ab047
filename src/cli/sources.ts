import { EventStamp } from '../adapters/event-stamp.ts'
import { TRANSLATIONS, type VendorName } from '../adapters/read-events.ts'
import { type InputFault, VendorInput, VendorReader } from '../adapters/vendor-input.ts'
import { generateEventId } from '../protocol/ids.ts'
import { normalizeEvent } from '../protocol/lenient-event.ts'
import type {
  ErrorObject,
  ItemType,
  StreamEvent,
  StreamEventPayload,
} from '../protocol/stream-event.ts'
import { isStreamEvent, streamEventFault } from '../protocol/stream-event-guard.ts'

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

export interface SourceOptions {
  runId: string
  threadId: string
  now: () => number
  onUnknown: (type: string) => void
}

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
export class V2Source {
  readonly #input: VendorInput
  readonly #openItems = new Map<string, ItemType>()
  #events: StreamEvent[] = []
  #last: StreamEvent | undefined
  #isOpen = false
  #badEvent: InputFault | undefined

  constructor() {
    this.#input = new VendorInput((event) => this.#take(event))
  }

  get fault(): InputFault | undefined {
    return this.#badEvent ?? this.#input.fault
  }

  feed(chunk: Uint8Array): readonly StreamEvent[] {
    this.#input.feed(chunk)
    return this.#drain()
  }

  end(): readonly StreamEvent[] {
    this.#input.end()
    if (this.#isOpen) this.#truncate()
    return this.#drain()
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

  #truncate(): void {
    const error: ErrorObject =
      this.fault === undefined
        ? { code: 'UPSTREAM_TRUNCATED', message: 'The events stop before the end of the turn' }
        : { code: 'UPSTREAM_MALFORMED', message: this.fault.reason }
    for (const item_id of this.#openItems.keys())
      this.#append({ type: 'item_error', item_id, error })
    this.#append({ type: 'response_error', response_id: this.#last?.run_id ?? '', error })
  }

  #append(payload: StreamEventPayload): void {
    if (this.#last === undefined) return
    const { run_id, trace_context, timestamp } = this.#last
    this.#events.push({
      event_id: generateEventId(),
      timestamp,
      trace_context,
      run_id,
      type: payload.type,
      payload,
    } as StreamEvent)
  }

  #drain(): readonly StreamEvent[] {
    const events = this.#events
    this.#events = []
    return events
  }
}
