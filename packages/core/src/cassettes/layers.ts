import { vendorCode, vendorMessage } from '../formats/call-faults.ts'
import { EventStamp } from '../formats/event-stamp.ts'
import type { SourceFormat } from '../formats/format.ts'
import { SOURCES } from '../formats/registry.ts'
import { VendorReader } from '../formats/vendor-input.ts'
import { isForProcessor } from '../items/marks.ts'
import { OutputReplay } from '../processor/recompute.ts'
import type { CallEnd } from '../protocol/cassette.ts'
import type { ErrorObject } from '../protocol/stream-event.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'
import type { Cassette, CassetteCall, TimedEvent } from './cassette.ts'
import { checkVendor, modelOf } from './vendors.ts'

/** Returns the recorded events; without any, those that the recorded calls translate to. */
export function cassetteEvents(cassette: Cassette): readonly TimedEvent[] {
  if (cassette.events.length > 0) return cassette.events
  return cassette.calls.flatMap((call) => callEvents(cassette, call))
}

const UNNAMED = 'cassette'

/** Translates one recorded call. Ids and times depend on the cassette alone. */
export function callEvents({ header }: Cassette, call: CassetteCall): TimedEvent[] {
  const { request, chunks, number } = call
  const vendor = checkVendor(number, request)
  const { turnId = UNNAMED, threadId = UNNAMED, createdAt } = header
  const runId = number === 1 ? turnId : `${turnId}-${number}`
  let { at } = call
  const now = (): number => Math.trunc(createdAt + at)
  const modelId = request === undefined ? 'unknown' : modelOf(request)
  const context = { runId, turnId, threadId, providerId: vendor, modelId, now }
  const source: SourceFormat = SOURCES[vendor]
  const reader = new VendorReader(SOURCES[vendor].translate(context), source.input)
  const stamp = new EventStamp({ runId, now })
  const events: TimedEvent[] = []
  const add = (payloads: ReturnType<VendorReader['feed']>): void => {
    for (const payload of payloads) events.push({ at, event: stamp.stamp(payload) })
  }
  if (hasStream(call)) {
    for (const chunk of chunks) {
      at = Math.max(at, chunk.at)
      add(reader.feed(chunk.bytes))
    }
  }
  at = Math.max(at, call.end?.at ?? 0)
  add(reader.end(faultOf(call)))
  return events
}

/** Returns whether the provider accepted a call. */
export function hasStream({ response }: CassetteCall): boolean {
  return response !== undefined && response.status >= 200 && response.status < 300
}

/** Why a call has no end. Ignored by a response that has ended. */
function faultOf(call: CassetteCall): ErrorObject | undefined {
  const { response, end } = call
  if (response !== undefined && !hasStream(call)) {
    const body = textOf(call)
    const message = vendorMessage(body) || 'no message'
    return { code: vendorCode(response.status, body), message }
  }
  return end === undefined ? INCOMPLETE : FAULTS[end.reason]
}

const INCOMPLETE = { code: 'UPSTREAM_TRUNCATED', message: 'The recording is incomplete' }

const FAULTS: Record<CallEnd, ErrorObject | undefined> = {
  complete: undefined,
  aborted: { code: 'ABORTED', message: 'The client closed the connection' },
  failed: { code: 'UPSTREAM_UNREACHABLE', message: 'The connection to the provider failed' },
  limit: { code: 'UPSTREAM_TRUNCATED', message: 'The recording reached its size limit' },
}

export function textOf({ chunks }: CassetteCall): string {
  const decoder = new TextDecoder()
  const parts = chunks.map(({ bytes }) => decoder.decode(bytes, { stream: true }))
  return parts.join('') + decoder.decode()
}

/**
 * Computes the snapshots of events, in order, each with its time. A cassette of several calls without a turn has the
 * snapshots of each. A callback rather than a list: together they may be far larger than the events.
 */
export function computeOutputs(
  events: readonly TimedEvent[],
  onOutput: (output: StreamOutput, at: number) => void,
): void {
  let replay: OutputReplay | undefined
  let runId: string | undefined
  let now = 0
  for (const { at, event } of events) {
    now = Math.max(now, at)
    if (event.type === 'response_start' && event.payload.response_id !== runId) {
      replay?.apply({ type: 'flush' }, now)
      runId = event.payload.response_id
      const { turn_id: turnId, thread_id: threadId } = event.payload
      replay = new OutputReplay({ turnId, threadId }, onOutput)
    }
    if (isForProcessor(event)) replay?.apply(event, now)
  }
  replay?.apply({ type: 'flush' }, now)
}

/** Passes on the recorded snapshots; without any, the computed ones. */
export function cassetteOutputs(
  cassette: Cassette,
  onOutput: (output: StreamOutput, at: number) => void,
): void {
  if (cassette.outputs.length === 0) return computeOutputs(cassetteEvents(cassette), onOutput)
  for (const { output, at } of cassette.outputs) onOutput(output, at)
}
