import { type Clock, systemClock } from '../async/clock.ts'
import type { ErrorObject, StreamEvent } from '../protocol/stream-event.ts'
import { checkBaseUrl } from './base-url.ts'
import { EventStamp } from './event-stamp.ts'
import {
  type Attempt,
  openVendorStream,
  type ResolvedHttpOptions,
  unreachable,
} from './http-call.ts'
import type { Provider, ProviderRequest, RunContext, VendorRequest } from './provider.ts'
import { ProviderStream } from './provider-stream.ts'
import type { Translation, TranslationContext } from './translation.ts'
import { concealing, withConcealedErrors } from './vendor-errors.ts'
import { VendorReader } from './vendor-reader.ts'

/** How long a provider may be silent, in milliseconds; whatever it sends is a sign of life. */
export interface TimeLimits {
  /** Until it answers at all, with a status and headers (10 s). */
  connectMs: number
  /** At a time, before the first event of an answer (120 s). */
  firstEventMs: number
  /** At a time, once events have come (300 s). */
  betweenEventsMs: number
}

/** What every HTTP provider can be told. */
export interface HttpProviderOptions {
  /** The name under which its responses go. */
  id?: string
  baseUrl?: string
  apiKey?: string
  headers?: Record<string, string>
  timeLimits?: Partial<TimeLimits>
  /** Tries after the first one, as long as no event has arrived (2). */
  maxRetries?: number
  fetch?: typeof globalThis.fetch
  clock?: Clock
  /** Spreads retries, from 0 to 1. */
  random?: () => number
  onUnknown?: (type: string) => void
  /** Cap for the arguments of one tool call (1,000,000). */
  maxArgumentChars?: number
}

/** What makes a vendor a vendor. */
export interface Vendor {
  id: string
  buildRequest(request: ProviderRequest): VendorRequest
  createTranslation(context: TranslationContext): Translation
}

const DEFAULT_LIMITS: TimeLimits = {
  connectMs: 10_000,
  firstEventMs: 120_000,
  betweenEventsMs: 300_000,
}

/**
 * A provider that is called over HTTP and answers with a stream. Where it is called follows from its options
 * alone; OPTION_INVALID when that is no address.
 */
export function httpProvider(vendor: Vendor, options: HttpProviderOptions): Provider {
  checkBaseUrl(options.baseUrl)
  const id = options.id ?? vendor.id
  const conceal = concealing(options)
  const clock = options.clock ?? systemClock
  const resolved: ResolvedHttpOptions = {
    limits: { ...DEFAULT_LIMITS, ...options.timeLimits },
    maxRetries: options.maxRetries ?? 2,
    fetch: options.fetch ?? globalThis.fetch,
    clock,
    random: options.random ?? Math.random,
  }
  return {
    id,
    stream(request, run, signal) {
      const stream = new ProviderStream(signal, clock)
      const reader = createReader(vendor, { id, request, run, options, conceal, clock })
      const attempt: Attempt = {
        options: resolved,
        signal: stream.signal,
        buildRequest: () => vendor.buildRequest(request),
        onRetry: run.onRetry,
      }
      void pump(attempt, reader, stream)
      return stream
    },
  }
}

interface ReaderParts {
  id: string
  request: ProviderRequest
  run: RunContext
  options: HttpProviderOptions
  conceal: (error: ErrorObject) => ErrorObject
  clock: Clock
}

function createReader(
  vendor: Vendor,
  { id, request, run, options, conceal, clock }: ReaderParts,
): VendorReader {
  const { runId, turnId, threadId, traceContext } = run
  const now = (): number => clock.now()
  const translation = vendor.createTranslation({
    runId,
    turnId,
    threadId,
    providerId: id,
    modelId: request.model,
    now,
    ...(options.onUnknown !== undefined && { onUnknown: options.onUnknown }),
    ...(options.maxArgumentChars !== undefined && { maxArgumentChars: options.maxArgumentChars }),
  })
  const stamp = new EventStamp({ now, ...(traceContext !== undefined && { traceContext }) })
  return new VendorReader(withConcealedErrors(translation, conceal), stamp, { format: 'sse' })
}

/** Moves the answer into the stream, as fast as its reader takes it. Never rejects. */
async function pump(attempt: Attempt, reader: VendorReader, stream: ProviderStream): Promise<void> {
  try {
    const fault = await openVendorStream(attempt, async (chunk) => {
      const events = upToEnd(reader.feed(chunk))
      await sendAll(stream, events)
      const isOver = reader.fault !== undefined || events.some(isTerminal)
      return { arrived: events.length, isOver }
    })
    await sendAll(stream, reader.end(fault))
  } catch (error) {
    if (attempt.signal.aborted) return
    await sendAll(stream, reader.end(unreachable(error))).catch(() => {}) // the reader has left
  }
  stream.complete()
}

/** One call is one response: not every vendor closes the connection after its end. */
function upToEnd(events: readonly StreamEvent[]): readonly StreamEvent[] {
  const end = events.findIndex(isTerminal)
  return end === -1 ? events : events.slice(0, end + 1)
}

function isTerminal({ type }: StreamEvent): boolean {
  return type === 'response_done' || type === 'response_error' || type === 'turn_aborted_by_user'
}

async function sendAll(stream: ProviderStream, events: readonly StreamEvent[]): Promise<void> {
  for (const event of events) await stream.send(event)
}
