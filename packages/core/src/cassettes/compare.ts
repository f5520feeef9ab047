import { VendorInput } from '../formats/vendor-input.ts'
import { isRecord } from '../protocol/json.ts'
import { outputKey } from '../protocol/output-codec.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'
import { type Cassette, type CassetteCall, type TimedEvent, toBinary } from './cassette.ts'
import { cassetteEvents, cassetteOutputs, hasStream, textOf } from './layers.ts'

/** In the order in which they are compared. */
export const LAYERS = ['vendor', 'events', 'outputs'] as const
export type Layer = (typeof LAYERS)[number]

export interface CompareOptions {
  /** All by default. The vendor's bytes are compared only where both cassettes have them. */
  layers?: readonly Layer[]
  /** Also compares ids and opaque values of the vendors. */
  ids?: boolean
  /** Compares times, and how text was split: every chunk, every delta, every snapshot. */
  times?: boolean
}

/** The first difference. `a` or `b` is undefined where that cassette has nothing. */
export interface Difference {
  readonly layer: Layer
  /** Number of the record in its layer, from 1. */
  readonly place: number
  readonly record: string
  /** The differing field of the record; empty if one is missing. */
  readonly path: string
  readonly a: unknown
  readonly b: unknown
}

/** Returns the first difference of two cassettes, or undefined if they are equal. */
export function compareCassettes(
  a: Cassette,
  b: Cassette,
  options: CompareOptions = {},
): Difference | undefined {
  const { layers = LAYERS } = options
  for (const layer of LAYERS) {
    if (!layers.includes(layer)) continue
    if (layer === 'vendor' && (a.calls.length === 0 || b.calls.length === 0)) continue
    const read = (cassette: Cassette): Entry[] => {
      const plain = normalizer(options)
      const entries = READERS[layer](cassette, options.times === true)
      return entries.map(({ record, value }) => ({ record, value: plain(value) }))
    }
    const difference = compareLayer(layer, read(a), read(b))
    if (difference !== undefined) return difference
  }
  return undefined
}

interface Entry {
  readonly record: string
  readonly value: unknown
}

const READERS: Record<Layer, (cassette: Cassette, areTimesCompared: boolean) => Entry[]> = {
  vendor: ({ calls }, areTimesCompared) =>
    calls.flatMap((call) => vendorEntries(call, areTimesCompared)),
  events: (cassette, areTimesCompared) => {
    const events = cassetteEvents(cassette)
    if (areTimesCompared) return events.map((value) => ({ record: value.event.type, value }))
    return joinDeltas(events)
  },
  outputs: (cassette, areTimesCompared) => {
    if (!areTimesCompared)
      return lastOutputs(cassette).map((value) => ({ record: value.type, value }))
    const entries: Entry[] = []
    cassetteOutputs(cassette, (output, at) => {
      entries.push({ record: output.type, value: { at, output } })
    })
    return entries
  },
}

/** The status of a call and the events of its response, or its chunks if times count. */
function vendorEntries(call: CassetteCall, areTimesCompared: boolean): Entry[] {
  const entries: Entry[] = []
  const record = `call ${call.number}`
  const { at, response, chunks, end } = call
  const times = areTimesCompared ? { at, answeredAt: response?.at, endAt: end?.at } : {}
  entries.push({ record, value: { status: response?.status, end: end?.reason, ...times } })
  if (areTimesCompared) {
    for (const { at, bytes } of chunks) {
      entries.push({ record, value: { at, bytes: toBinary(bytes) } })
    }
    return entries
  }
  if (!hasStream(call)) return [...entries, { record, value: textOf(call) }]
  const input = new VendorInput((value) => entries.push({ record, value }))
  for (const { bytes } of chunks) input.feed(bytes)
  input.end()
  // A response that is not a stream of events.
  if (input.fault !== undefined) entries.push({ record, value: textOf(call) })
  return entries
}

/** Joins the deltas of each item. How a vendor splits and interleaves text is accidental. */
function joinDeltas(events: readonly TimedEvent[]): Entry[] {
  const joined: Entry[] = []
  const texts = new Map<string, string[]>()
  const settle = (item_id: string): void => {
    const delta_content = texts.get(item_id)?.join('')
    texts.delete(item_id)
    if (delta_content === undefined) return
    const type = 'item_delta'
    const payload = { type, item_id, delta_content }
    joined.push({ record: type, value: { type, payload } })
  }
  for (const { event } of events) {
    const { type, payload } = event
    if (type === 'heartbeat') continue
    if (payload.type === 'item_delta') {
      const parts = texts.get(payload.item_id) ?? []
      texts.set(payload.item_id, parts)
      parts.push(payload.delta_content)
      continue
    }
    if ('item_id' in payload) settle(payload.item_id)
    joined.push({ record: type, value: { type, payload } })
  }
  for (const id of texts.keys()) settle(id)
  return joined
}

/** The last snapshot of each item and the turn's own, in order of first appearance. */
function lastOutputs(cassette: Cassette): StreamOutput[] {
  const last = new Map<string, StreamOutput>()
  cassetteOutputs(cassette, (output) => {
    const { turnId } = output
    // `create`, `update`: whether a snapshot came before the last one depends on time.
    const isGrowing = 'itemId' in output && output.status === 'create'
    const settled: StreamOutput = isGrowing ? { ...output, status: 'update' } : output
    last.set(`${turnId} ${outputKey(output)}`, settled)
  })
  return [...last.values()]
}

const TIMES =
  /^(?:at|timestamp|created|created_at|createdAt|completed_at|startedAt|endedAt|answered_at|answeredAt|createTime)$/
const IDS = /^(?:id|replaces|replacedBy|.+_id|.+Id)$/
const NOT_IDS = /^(?:model|provider|agent)(?:_id|Id)$/
/** Values without a meaning outside the vendor. */
const OPAQUE =
  /^(?:trace_context|obfuscation|system_fingerprint|signature|thought_?signature|encrypted_content)$/i

/** Removes what is not compared. Ids become their order of appearance, so that references still count. */
function normalizer({ ids = false, times = false }: CompareOptions): (value: unknown) => unknown {
  const places = new Map<string, number>()
  const placeOf = (id: string): string => {
    const place = places.get(id) ?? places.size + 1
    places.set(id, place)
    return `#${place}`
  }
  const plain = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(plain)
    if (!isRecord(value)) return value
    const fields = Object.entries(value).flatMap(([name, field]) => {
      if (!times && TIMES.test(name)) return []
      if (!ids && OPAQUE.test(name)) return []
      const isId = !ids && typeof field === 'string' && IDS.test(name) && !NOT_IDS.test(name)
      return [[name, isId ? placeOf(field) : plain(field)] as const]
    })
    return Object.fromEntries(fields)
  }
  return plain
}

function compareLayer(
  layer: Layer,
  a: readonly Entry[],
  b: readonly Entry[],
): Difference | undefined {
  for (let at = 0; at < Math.max(a.length, b.length); at++) {
    const record = (a[at] ?? b[at])?.record ?? ''
    const found = differ(a[at]?.value, b[at]?.value, '')
    if (found !== undefined) return { layer, place: at + 1, record, ...found }
  }
  return undefined
}

type Found = Pick<Difference, 'path' | 'a' | 'b'>

function differ(a: unknown, b: unknown, path: string): Found | undefined {
  if (Object.is(a, b)) return undefined
  const isComparable =
    (isRecord(a) && isRecord(b)) || (Array.isArray(a) && Array.isArray(b) && a.length === b.length)
  if (!isComparable) return { path, a, b }
  const left = a as Record<string, unknown>
  const right = b as Record<string, unknown>
  for (const name of new Set([...Object.keys(left), ...Object.keys(right)])) {
    const found = differ(left[name], right[name], path === '' ? name : `${path}.${name}`)
    if (found !== undefined) return found
  }
  return undefined
}
