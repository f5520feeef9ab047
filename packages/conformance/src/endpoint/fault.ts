import { clip } from '@turnstream/core/internal/protocol/printable'
import { type Check, ok, skipped } from './check.ts'
import type { Answer } from './http.ts'

/** Where a server differs from what clients expect. */
export interface Fault {
  readonly expected: string
  readonly came: string
}

/** Returns the fault of a recording, if any. */
export type Rule<Recorded> = (recorded: Recorded) => Fault | undefined

/** `fine` is the text of a passed check. */
export type NamedRule<Recorded> = readonly [name: string, fine: string, rule: Rule<Recorded>]

/** What was received in place of what was expected. */
export type Finding = string | undefined

export type Json = Readonly<Record<string, unknown>>
export type PlainAnswer = Pick<Answer, 'status' | 'body'>
export type Test = (value: unknown) => boolean

const MAX_SHOWN = 160

/** Formats any value as one short line. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  return clip(typeof value === 'string' ? value : JSON.stringify(value), MAX_SHOWN)
}

export function faultCheck(name: string, fault: Fault | undefined, fine: string): Check {
  if (fault === undefined) return ok(name, fine)
  return { name, verdict: 'fail', found: fault.came, expected: fault.expected }
}

export function expecting<Recorded>(
  expected: string,
  find: (recorded: Recorded) => Finding,
): Rule<Recorded> {
  return (recorded) => {
    const came = find(recorded)
    return came === undefined ? undefined : { expected, came }
  }
}

export const isWord: Test = (value) => typeof value === 'string' && value !== ''

export const isCount: Test = (value) => Number.isSafeInteger(value) && Number(value) >= 0

/** A field of a response: path, value, expected type, and whether it matches. */
export type Field = readonly [path: string, value: unknown, takes: string, suits: Test]

/** Reports the first field that does not match. */
export function fieldFault(fields: readonly Field[]): Fault | undefined {
  const missed = fields.find(([, value, , suits]) => !suits(value))
  if (missed === undefined) return undefined
  const [path, value, takes] = missed
  return { expected: `${path}: ${takes}`, came: `${path}: ${shown(value)}` }
}

export const typeFault = expecting(
  'content-type: text/event-stream',
  ({ contentType }: { readonly contentType: string }) => {
    const isSse = /^text\/event-stream(;|$)/i.test(contentType.trim())
    return isSse ? undefined : shown(contentType || undefined)
  },
)

const REPLACEMENT = '\uFFFD'

/** Finds invalid UTF-8, and characters that were split before they were put into JSON. */
export function brokenText(
  reads: readonly { readonly bytes: Uint8Array }[],
  texts: readonly string[],
): Finding {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  try {
    for (const { bytes } of reads) decoder.decode(bytes, { stream: true })
    decoder.decode()
  } catch {
    return 'invalid UTF-8'
  }
  const broken = texts.find((text) => text.includes(REPLACEMENT))
  return broken === undefined ? undefined : `${shown(broken)} in a delta`
}

/** Fewer events may arrive together by chance. */
const MANY_EVENTS = 8

interface Measured {
  /** When each piece of text arrived. */
  readonly times: readonly number[]
  /** The tokens of the answer, as the server counts them. */
  readonly tokens: unknown
  readonly reads: number
  readonly events: number
  /** What the API calls its events. */
  readonly unit: 'chunks' | 'events'
}

/** Measures time to first token and speed, and whether events are buffered on the way. */
export function measure({ times, tokens, reads, events, unit }: Measured): Check[] {
  const [first] = times
  const ms = (times.at(-1) ?? 0) - (first ?? 0)
  const count = reads === 1 ? 'one read' : `${reads} reads`
  const isHeld = reads <= 1 && events >= MANY_EVENTS
  const advice = isHeld ? ': the server or a proxy may be buffering' : ''
  return [
    first === undefined
      ? skipped('first token', 'none')
      : ok('first token', `after ${Math.round(first)} ms`),
    typeof tokens === 'number'
      ? ok('speed', speed(tokens, ms))
      : skipped('speed', 'no token count'),
    ok('pace', `${events} ${unit} in ${count}${advice}`),
  ]
}

function speed(tokens: number, ms: number): string {
  if (ms === 0) return `${tokens} tokens at once`
  return `${((tokens / ms) * 1000).toFixed(1)} tokens per second`
}
