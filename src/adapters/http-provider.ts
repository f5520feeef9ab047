import { type Clock, systemClock } from '../async/clock.ts'
import { isSliceOver, nextSlice } from '../async/time-slice.ts'
import {
  type Attempt,
  type HttpCallOptions,
  openVendorStream,
  type Progress,
  unreachable,
} from './http-call.ts'
import { type Provider, type ProviderRequest, ProviderStream } from './provider.ts'
import type { Translation, TranslationContext } from './translation.ts'
import { concealing } from './vendor-errors.ts'
import { VendorReader } from './vendor-input.ts'
import { checkBaseUrl, type VendorRequest } from './vendor-request.ts'

/** Provider timeouts in milliseconds. `Infinity` disables a limit. Connecting is up to `fetch`. */
export interface TimeLimits {
  /** Silence before the first event: for headers, and then for bytes. 120 s by default. */
  firstEventMs: number
  /** Silence after the first event. 300 s by default. */
  betweenEventsMs: number
  /** How long keep-alives, unknown and empty events may extend those limits in total. 600 s by default. */
  stallMs: number
}

/** Options of every HTTP provider. */
export interface HttpProviderOptions {
  /** Provider id of its responses. */
  id?: string
  baseUrl?: string
  apiKey?: string
  headers?: Record<string, string>
  timeLimits?: Partial<TimeLimits>
  /** Maximum bytes without an event. 64 MiB by default. */
  maxStalledBytes?: number
  /** Retries before the first event. 2 by default. */
  maxRetries?: number
  /** Whether to retry after a timeout, although the first call may be billed. False by default. */
  retryTimeouts?: boolean
  fetch?: typeof globalThis.fetch
  clock?: Clock
  /** Retry jitter, from 0 to 1. */
  random?: () => number
  onUnknown?: (type: string) => void
  /** Maximum characters of one tool call's arguments. 1,000,000 by default. */
  maxArgumentChars?: number
}

const DEFAULT_LIMITS: TimeLimits = {
  firstEventMs: 120_000,
  betweenEventsMs: 300_000,
  stallMs: 600_000,
}

// More than the largest accepted event, 16 Mi characters.
const MAX_STALLED_BYTES = 64 * 1024 * 1024

// Parsed at a time: 2 ms of the smallest events.
const PART_BYTES = 16 * 1024

/**
 * A provider called over HTTP that responds with a stream. Its URL depends only on its options; OPTION_INVALID if it is
 * not valid.
 */
export function httpProvider<Options extends HttpProviderOptions>(
  vendorId: string,
  buildRequest: (request: ProviderRequest, options: Options) => VendorRequest,
  createTranslation: (context: TranslationContext) => Translation,
  options: Options,
): Provider {
  checkBaseUrl(options.baseUrl)
  const { id = vendorId, clock = systemClock, onUnknown, maxArgumentChars } = options
  const conceal = concealing(options)
  const resolved: HttpCallOptions = {
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
    stream(request, { onRetry, ...run }, signal) {
      const stream = new ProviderStream(signal, clock)
      const context = { ...run, providerId: id, modelId: request.model, now: () => clock.now() }
      const translation = createTranslation({ ...context, onUnknown, maxArgumentChars, conceal })
      const reader = new VendorReader(translation, 'sse')
      const attempt: Attempt = {
        ...resolved,
        signal: stream.signal,
        buildRequest: () => buildRequest(request, options),
        onRetry,
      }
      void pump(attempt, reader, stream)
      return stream
    },
  }
}

/** Moves the response into the stream at the reader's pace. Never rejects. */
async function pump(attempt: Attempt, reader: VendorReader, stream: ProviderStream): Promise<void> {
  try {
    const fault = await openVendorStream(attempt, (chunk) => pumpChunk(chunk, reader, stream))
    await stream.addUntilEnd(reader.end(fault))
  } catch (error) {
    if (attempt.signal.aborted) return
    try {
      await stream.addUntilEnd(reader.end(unreachable(error)))
    } catch {
      // The reader has left.
    }
  }
  stream.complete()
}

/** Yields to the event loop between slices. */
async function pumpChunk(
  chunk: Uint8Array,
  reader: VendorReader,
  stream: ProviderStream,
): Promise<Progress> {
  let arrived = 0
  for (let at = 0; at < chunk.length; at += PART_BYTES) {
    if (isSliceOver()) await nextSlice()
    const payloads = reader.feed(chunk.subarray(at, at + PART_BYTES))
    arrived += payloads.length
    // Not every vendor closes the connection after its response.
    const hasEnded = await stream.addUntilEnd(payloads)
    if (hasEnded || reader.fault !== undefined) return { arrived, isOver: true }
  }
  return { arrived, isOver: false }
}
