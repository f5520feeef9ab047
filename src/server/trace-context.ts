import { HEADERS } from '../protocol/names.ts'
import type { TraceContext } from '../protocol/stream-event.ts'

export interface TraceHeaders {
  readonly [HEADERS.traceparent]?: string
  readonly [HEADERS.tracestate]?: string
}

/** Version, trace, parent, flags. A version that comes later may have more. */
const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-[\da-f]{2}(-[!-~]{1,140})?$/
const ZEROS = /^0+$/

/** Visible, and twice as long as everybody has to pass on. */
const TRACESTATE = /^[ -~]{1,1000}$/

/**
 * The trace that a request belongs to. What is no traceparent is no trace, and no error: whoever traces
 * requests on the way may be mistaken, and no turn shall suffer for it. None is made up here.
 */
export function traceContextOf(headers: TraceHeaders): TraceContext | undefined {
  const { traceparent = '', tracestate = '' } = headers
  if (!isTraceparent(traceparent)) return undefined
  return { traceparent, ...(TRACESTATE.test(tracestate) && { tracestate }) }
}

function isTraceparent(text: string): boolean {
  const [, version, trace = '', parent = '', more] = TRACEPARENT.exec(text) ?? []
  if (version === undefined || version === 'ff' || (version === '00' && more)) return false
  return !ZEROS.test(trace) && !ZEROS.test(parent)
}
