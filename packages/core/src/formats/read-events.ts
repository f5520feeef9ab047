import { TurnstreamError } from '../protocol/errors.ts'
import type { ErrorObject, StreamEvent, TraceContext } from '../protocol/stream-event.ts'
import { unreachable } from './call-faults.ts'
import { createStampedReader } from './format.ts'
import { SOURCES, VENDOR_NAMES, type VendorName } from './registry.ts'
import type { TranslationContext } from './translation.ts'

export interface ReadEventsOptions extends Partial<TranslationContext> {
  readonly traceContext?: TraceContext
}

/**
 * Reads a vendor's response body, SSE or JSON lines, as StreamEvents. A failed, malformed or truncated body ends with a
 * `response_error`. Leaving the loop cancels the body. `runId` is random by default; `turnId` and `threadId` equal it.
 * OPTION_INVALID for an unknown vendor.
 */
export async function* readEvents(
  body: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array> | null,
  vendor: VendorName,
  options: ReadEventsOptions = {},
): AsyncGenerator<StreamEvent, void> {
  if (!VENDOR_NAMES.includes(vendor)) {
    const known = VENDOR_NAMES.join(', ')
    throw new TurnstreamError('OPTION_INVALID', `unknown vendor ${vendor}; use one of ${known}`)
  }
  const { traceContext, ...context } = options
  const { runId = crypto.randomUUID(), now = Date.now } = context
  const translation = SOURCES[vendor].translate({
    turnId: runId,
    threadId: runId,
    providerId: vendor,
    modelId: 'unknown',
    ...context,
    runId,
    now,
  })
  const trace = traceContext && { traceContext }
  const reader = createStampedReader(translation, { runId, now, ...trace })
  let fault: ErrorObject | undefined
  try {
    for await (const chunk of chunksOf(body)) {
      yield* reader.feed(chunk)
      if (reader.fault !== undefined) return
    }
  } catch (error) {
    fault = unreachable(error)
  }
  yield* reader.end(fault)
}

/** Not every browser can iterate a ReadableStream. */
async function* chunksOf(
  body: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array> | null,
): AsyncGenerator<Uint8Array, void> {
  if (body === null) return
  if (Symbol.asyncIterator in body) return yield* body as AsyncIterable<Uint8Array>
  const reader = (body as ReadableStream<Uint8Array>).getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    await reader.cancel()
  }
}
