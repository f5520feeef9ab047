import { parseJsonObject } from '@turnstream/core/internal/protocol/json'
import { clip } from '@turnstream/core/internal/protocol/printable'
import { type Check, ok, skipped } from './check.ts'
import type { Answer, NoAnswer } from './http.ts'
import type { NamedEvent, SseRecording } from './recording.ts'

/** Where a server differs from what clients expect. */
export interface Fault {
  readonly expected: string
  readonly came: string
}

export type Rule<Recorded> = (recorded: Recorded) => Fault | undefined

/** `fine` is the text of a passed check. */
export type NamedRule = readonly [name: string, fine: string, rule: Rule<SseRecording>]

/** What was received in place of what was expected. */
export type Finding = string | undefined

export type Json = Readonly<Record<string, unknown>>
export type PlainAnswer = Pick<Answer, 'status' | 'body'>
export type Test = (value: unknown) => boolean

const MAX_SHOWN = 160

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

export function rule(
  name: string,
  fine: string,
  expected: string,
  find: (stream: SseRecording) => Finding,
): NamedRule {
  return [name, fine, expecting(expected, find)]
}

export function firstOf<Value>(values: readonly Value[], check: Rule<Value>): Fault | undefined {
  return values.map(check).find((fault) => fault !== undefined)
}

export const came = ({ status, body }: PlainAnswer): string => `status ${status}: ${shown(body)}`

export function okFault(answer: PlainAnswer): Fault | undefined {
  return answer.status === 200 ? undefined : { expected: 'status 200', came: came(answer) }
}

/** The JSON object in a response, if it has one. */
export function jsonIn(answer: PlainAnswer | NoAnswer | undefined): Json | undefined {
  return answer && 'body' in answer ? parseJsonObject(answer.body) : undefined
}

/** Checks that a response has status 200 and a JSON object, and then the object. */
export function objectFault(answer: PlainAnswer, check: Rule<Json>): Fault | undefined {
  const json = jsonIn(answer)
  const fault = okFault(answer)
  if (fault !== undefined || json !== undefined) return fault ?? (json && check(json))
  return { expected: 'a JSON object', came: shown(answer.body) }
}

/** Checks the status and the error object of a refusal. `shape` is what clients expect. */
export function refusalRule(shape: string, isShaped: (json: Json, status: number) => boolean) {
  return (answer: PlainAnswer, statuses: readonly number[]): Fault | undefined => {
    const { status } = answer
    const json = jsonIn(answer)
    if (statuses.includes(status) && json && isShaped(json, status)) return undefined
    return { expected: `status ${statuses.join(' or ')} with ${shape}`, came: came(answer) }
  }
}

export const isText = (value: unknown): value is string => typeof value === 'string'

export const isWord: Test = (value) => isText(value) && value !== ''

export const isCount: Test = (value) => Number.isSafeInteger(value) && Number(value) >= 0

/** A field of a response: path, value, expected type, and whether it matches. */
export type Field = readonly [path: string, value: unknown, takes: string, suits: Test]

export function fieldFault(fields: readonly Field[]): Fault | undefined {
  const missed = fields.find(([, value, , suits]) => !suits(value))
  if (missed === undefined) return undefined
  const [path, value, takes] = missed
  return { expected: `${path}: ${takes}`, came: `${path}: ${shown(value)}` }
}

export const typeFault = expecting<SseRecording>(
  'content-type: text/event-stream',
  ({ contentType }) => {
    const isSse = /^text\/event-stream(;|$)/i.test(contentType.trim())
    return isSse ? undefined : shown(contentType || undefined)
  },
)

const REPLACEMENT = '\uFFFD'

/** Finds invalid UTF-8, and characters that were split before they were put into JSON. */
export function utf8Rule(textsOf: (stream: SseRecording) => readonly string[]): NamedRule {
  return rule('stream utf-8', 'no split characters', 'complete UTF-8 characters', (stream) => {
    const decoder = new TextDecoder('utf-8', { fatal: true })
    try {
      for (const { bytes } of stream.reads) decoder.decode(bytes, { stream: true })
      decoder.decode()
    } catch {
      return 'invalid UTF-8'
    }
    const broken = textsOf(stream).find((text) => text.includes(REPLACEMENT))
    return broken === undefined ? undefined : `${shown(broken)} in a delta`
  })
}

/** Fewer events may arrive together by chance. */
const MANY_EVENTS = 8

/** Measures time to first token and speed, and whether events are buffered on the way. `tokens` as the server counts. */
export function measure(
  { reads, events }: SseRecording,
  tokens: unknown,
  hasText: (event: NamedEvent) => boolean,
  unit: 'chunks' | 'events' = 'events',
) {
  const times = events.filter(hasText).map(({ atMs }) => atMs)
  const [first] = times
  const ms = (times.at(-1) ?? 0) - (first ?? 0)
  const count = reads.length === 1 ? 'one read' : `${reads.length} reads`
  const isHeld = reads.length <= 1 && events.length >= MANY_EVENTS
  const advice = isHeld ? ': the server or a proxy may be buffering' : ''
  return [
    first === undefined
      ? skipped('first token', 'none')
      : ok('first token', `after ${Math.round(first)} ms`),
    typeof tokens === 'number'
      ? ok('speed', speed(tokens, ms))
      : skipped('speed', 'no token count'),
    ok('pace', `${events.length} ${unit} in ${count}${advice}`),
  ]
}

function speed(tokens: number, ms: number): string {
  if (ms === 0) return `${tokens} tokens at once`
  return `${((tokens / ms) * 1000).toFixed(1)} tokens per second`
}
