import { type Clock, systemClock } from '../async/clock.ts'
import { isSliceOver, nextSlice } from '../async/time-slice.ts'
import type { ErrorObject, StreamEventPayload } from '../protocol/stream-event.ts'
import { checkBaseUrl } from './base-url.ts'
import {
  type Attempt,
  openVendorStream,
  type Progress,
  type ResolvedHttpOptions,
  unreachable,
} from './http-call.ts'
import type { Provider, ProviderRequest, RunContext } from './provider.ts'
import { ProviderStream } from './provider-stream.ts'
import type { Translation, TranslationContext } from './translation.ts'
import { concealing, withConcealedErrors } from './vendor-errors.ts'
import { PayloadReader } from './vendor-reader.ts'
import type { VendorRequest } from './vendor-request.ts'

/** How long to wait for a provider, in milliseconds. `Infinity` turns a limit off. Connecting is up to `fetch`. */
export interface TimeLimits {
  /** Silence before the first event: for headers, and then for bytes (120 s). */
  firstEventMs: number
  /** Silence once events have come (300 s). */
  betweenEventsMs: number
  /** How long keep-alives, unknown and empty events can put off those limits, in all (600 s). */
  stallMs: number
}

/** What every HTTP provider can be told. */
export interface HttpProviderOptions {
  /** The name under which its responses go. */
  id?: string
  baseUrl?: string
  apiKey?: string
  headers?: Record<string, string>
  timeLimits?: Partial<TimeLimits>
  /** How many bytes may come without an event among them (64 MiB). */
  maxStalledBytes?: number
  /** Tries after the first one, as long as no event has arrived (2). */
  maxRetries?: number
  /** Whether to try again after a time-out, although the first call may be charged for (false). */
  retryTimeouts?: boolean
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
  firstEventMs: 120_000,
  betweenEventsMs: 300_000,
  stallMs: 600_000,
}

// More than the largest event that is read, which has 16 Mi characters.
const MAX_STALLED_BYTES = 64 * 1024 * 1024

// What is parsed at a time: 2 ms of the smallest events.
const PART_BYTES = 16 * 1024

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
    maxStalledBytes: options.maxStalledBytes ?? MAX_STALLED_BYTES,
    maxRetries: options.maxRetries ?? 2,
    retryTimeouts: options.retryTimeouts ?? false,
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
): PayloadReader {
  const { runId, turnId, threadId } = run
  const translation = vendor.createTranslation({
    runId,
    turnId,
    threadId,
    providerId: id,
    modelId: request.model,
    now: () => clock.now(),
    onUnknown: options.onUnknown,
    maxArgumentChars: options.maxArgumentChars,
  })
  return new PayloadReader(withConcealedErrors(translation, conceal), { format: 'sse' })
}

/** Moves the answer into the stream, as fast as its reader takes it. Never rejects. */
async function pump(
  attempt: Attempt,
  reader: PayloadReader,
  stream: ProviderStream,
): Promise<void> {
  try {
    const fault = await openVendorStream(attempt, (chunk) => pumpChunk(chunk, reader, stream))
    await sendAll(stream, reader.end(fault))
  } catch (error) {
    if (attempt.signal.aborted) return
    await sendAll(stream, reader.end(unreachable(error))).catch(() => {}) // the reader has left
  }
  stream.complete()
}

/** In parts, between which others have the event loop. */
async function pumpChunk(
  chunk: Uint8Array,
  reader: PayloadReader,
  stream: ProviderStream,
): Promise<Progress> {
  let arrived = 0
  for (let at = 0; at < chunk.length; at += PART_BYTES) {
    if (isSliceOver()) await nextSlice()
    const payloads = upToEnd(reader.feed(chunk.subarray(at, at + PART_BYTES)))
    await sendAll(stream, payloads)
    arrived += payloads.length
    if (reader.fault !== undefined || payloads.some(isTerminal)) return { arrived, isOver: true }
  }
  return { arrived, isOver: false }
}

/** One call is one response: not every vendor closes the connection after its end. */
function upToEnd(payloads: readonly StreamEventPayload[]): readonly StreamEventPayload[] {
  const end = payloads.findIndex(isTerminal)
  return end === -1 ? payloads : payloads.slice(0, end + 1)
}

function isTerminal({ type }: StreamEventPayload): boolean {
  return type === 'response_done' || type === 'response_error' || type === 'turn_aborted_by_user'
}

async function sendAll(
  stream: ProviderStream,
  payloads: readonly StreamEventPayload[],
): Promise<void> {
  for (const payload of payloads) await stream.send(payload)
}
