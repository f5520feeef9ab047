import type { Clock } from '../async/clock.ts'
import { jsonLine } from '../protocol/json.ts'
import type { ErrorObject, StreamEvent, StreamEventPayload } from '../protocol/stream-event.ts'
import { EventStamp, type StampOptions } from './event-stamp.ts'
import type { Translation, TranslationContext } from './translation.ts'
import { type InputFault, type InputFormat, VendorReader } from './vendor-input.ts'

/** A format that is read: the stream of a provider, or StreamEvents. */
export interface SourceFormat {
  readonly title: string
  readonly translate?: (context: TranslationContext) => Translation
  readonly read?: () => EventReader
  /** How the provider streams; SSE and JSON lines by default. */
  readonly input?: InputFormat
  /** Matches the end of the path that the provider streams from. */
  readonly endpoint?: RegExp
}

/** A format that is written, one response at a time. */
export type TargetFormat = (start: ResponseStart, options: WriterOptions) => EventWriter

export type ResponseStart = StreamEventPayload<'response_start'>

export interface EventReader {
  readonly fault: InputFault | undefined
  feed(chunk: Uint8Array): readonly StreamEvent[]
  end(): readonly StreamEvent[]
}

export interface EventWriter {
  event(event: StreamEvent): Promise<void> | void
  end(): Promise<void> | void
}

export interface WriterOptions {
  /** Takes text as it is written. */
  readonly write: (text: string) => Promise<void> | void
  /** Writes JSON lines instead of SSE. */
  readonly json: boolean
  /** Adds a usage chunk at the end, in formats where it is optional. */
  readonly includeUsage: boolean
  readonly clock: Clock
  /** Returns the id of the next SSE frame, in formats that have ids. */
  readonly nextOffset: () => string
}

type ReaderOptions = Pick<TranslationContext, 'runId' | 'threadId' | 'now' | 'onUnknown'>

/** Reads a stream of any number of responses. */
export function createReader(
  name: string,
  { translate, read }: SourceFormat,
  options: ReaderOptions,
): EventReader {
  if (read !== undefined) return read()
  if (translate === undefined) throw new TypeError(`${name} has neither translate nor read`)
  const context = { ...options, turnId: options.runId, providerId: name, modelId: 'unknown' }
  return createStampedReader(translate(context), { now: options.now })
}

/** Reads a vendor's stream. */
export function createStampedReader(translation: Translation, options: StampOptions) {
  const reader = new VendorReader(translation)
  const stamp = new EventStamp(options)
  return {
    get fault() {
      return reader.fault
    },
    feed: (chunk: Uint8Array) => reader.feed(chunk).map((payload) => stamp.stamp(payload)),
    end: (fault?: ErrorObject) => reader.end(fault).map((payload) => stamp.stamp(payload)),
  }
}

/** Writes a stream of any number of responses. */
export function createWriter(
  createResponseWriter: TargetFormat,
  options: Omit<WriterOptions, 'nextOffset'>,
): EventWriter {
  let offset = 0
  let writer: EventWriter | undefined
  const nextOffset = (): string => {
    offset += 1
    return `1-${offset}`
  }
  return {
    async event(event) {
      if (event.type === 'response_start') {
        await writer?.end()
        offset = 0
        writer = createResponseWriter(event.payload, { ...options, nextOffset })
      }
      await writer?.event(event)
    },
    async end() {
      await writer?.end()
      writer = undefined
    },
  }
}

interface Encoder {
  encode(event: StreamEvent): readonly object[]
  encodeSse(event: StreamEvent): string
}

export function encoderWriter(
  encoder: Encoder,
  { json, write }: Pick<WriterOptions, 'json' | 'write'>,
): EventWriter {
  return {
    event(event) {
      const text = json ? encoder.encode(event).map(jsonLine).join('') : encoder.encodeSse(event)
      return text === '' ? undefined : write(text)
    },
    end() {},
  }
}
