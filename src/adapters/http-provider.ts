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

/** Moves the answer into the stream, as fast as its reader takes it. Never rejects. */
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

/** In parts, between which others have the event loop. */
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
    // Not every vendor closes the connection after the end of its response.
    const hasEnded = await stream.addUntilEnd(payloads)
    if (hasEnded || reader.fault !== undefined) return { arrived, isOver: true }
  }
  return { arrived, isOver: false }
}
