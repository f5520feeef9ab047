/** The events of `streamGenerateContent`, and how unknown JSON becomes one of them. */
import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import { countsOf, errorOf, sourcesOf, type WireCounts, type WireFinish } from './ending.ts'
import type { Fields } from './metadata.ts'

/** One value of the arguments of a call, or a piece of one. */
export interface PartialArg {
  path: string
  value: string | number | boolean | null
}

export type WirePart = { signature: string | undefined } & (
  | { kind: 'text'; isThought: boolean; text: string }
  | WireCall
  | { kind: 'code'; id: string | undefined; args: string; code: Fields }
  | { kind: 'code_result'; id: string | undefined; isOk: boolean; output: string; result: Fields }
  | { kind: 'attachment'; part: Fields }
  | { kind: 'unknown'; type: string }
)

/** A call is whole unless it will be continued; what continues it has no name. */
export interface WireCall {
  kind: 'call'
  id: string | undefined
  name: string | undefined
  /** JSON text of the whole arguments. */
  args: string | undefined
  partialArgs: readonly PartialArg[]
  willContinue: boolean
}

export interface GeminiEvent {
  kind: 'event'
  responseId: string | undefined
  model: string | undefined
  parts: readonly WirePart[]
  sources: Fields
  finish: WireFinish | undefined
  counts: WireCounts
}

export type DecodedEvent =
  | GeminiEvent
  | { kind: 'failed'; error: ErrorObject; counts: WireCounts }
  | { kind: 'unknown'; type: string }
  | { kind: 'malformed'; reason: string }

/** Why an event could not be read; thrown inside this file only. */
class Malformed extends Error {}

export function decodeEvent(json: unknown): DecodedEvent {
  // Not of this protocol, but proxies send it after everything.
  if (json === '[DONE]') return { kind: 'unknown', type: json }
  if (!isRecord(json)) return malformed('it is not an object')
  try {
    return decodeFields(json)
  } catch (error) {
    return malformed(error instanceof Malformed ? error.message : 'it cannot be read')
  }
}

function malformed(reason: string): DecodedEvent {
  return { kind: 'malformed', reason: `GenerateContentResponse: ${reason}` }
}

const KNOWN_FIELDS = ['candidates', 'promptFeedback', 'usageMetadata', 'modelVersion', 'responseId']

function decodeFields(json: Fields): DecodedEvent {
  const { error, usageMetadata } = json
  const counts = countsOf(usageMetadata)
  if (error) return { kind: 'failed', error: errorOf(error), counts }
  if (!KNOWN_FIELDS.some((name) => name in json)) {
    return { kind: 'unknown', type: Object.keys(json)[0] ?? 'an empty object' }
  }
  const candidate = firstCandidate(json['candidates']) ?? {}
  const content = optionalRecord(candidate['content'], 'candidates[0].content') ?? {}
  return {
    kind: 'event',
    responseId: nonEmpty(json['responseId']),
    model: nonEmpty(json['modelVersion']),
    parts: listOf(content['parts'], 'content.parts').map(decodePart),
    sources: sourcesOf(candidate),
    finish: finishOf(candidate['finishReason']) ?? blockOf(json['promptFeedback']),
    counts,
  }
}

/** There are others only for who asks for them, and we do not. */
function firstCandidate(candidates: unknown): Fields | undefined {
  const list = listOf(candidates, 'candidates').map((candidate) => {
    if (!isRecord(candidate)) throw new Malformed('an element of candidates is not an object')
    return candidate
  })
  return list.find(({ index }) => index === 0 || index === undefined || index === null)
}

function finishOf(reason: unknown): WireFinish | undefined {
  if (reason === undefined || reason === null) return undefined
  const word = nonEmpty(reason)
  if (word === undefined) throw new Malformed('candidates[0].finishReason is not a string')
  return { word, isBlocked: false }
}

function blockOf(feedback: unknown): WireFinish | undefined {
  const word = isRecord(feedback) ? nonEmpty(feedback['blockReason']) : undefined
  return word === undefined ? undefined : { word, isBlocked: true }
}

function decodePart(part: unknown): WirePart {
  if (!isRecord(part)) throw new Malformed('an element of content.parts is not an object')
  return { signature: nonEmpty(part['thoughtSignature']), ...contentOf(part) }
}

type WithoutSignature<Part> = Part extends unknown ? Omit<Part, 'signature'> : never

function contentOf(part: Fields): WithoutSignature<WirePart> {
  const { text, functionCall, executableCode, codeExecutionResult } = part
  if (text !== undefined && text !== null) {
    if (typeof text !== 'string') throw new Malformed('the text of a part is not a string')
    return { kind: 'text', isThought: part['thought'] === true, text }
  }
  if (functionCall) return decodeCall(recordOf(functionCall, 'functionCall'))
  if (executableCode) {
    const code = recordOf(executableCode, 'executableCode')
    const { id, language, code: text } = code
    return { kind: 'code', id: nonEmpty(id), args: JSON.stringify({ language, code: text }), code }
  }
  if (codeExecutionResult) {
    const result = recordOf(codeExecutionResult, 'codeExecutionResult')
    const { id, outcome, output } = result
    const isOk = outcome === 'OUTCOME_OK'
    return { kind: 'code_result', id: nonEmpty(id), isOk, output: nonEmpty(output) ?? '', result }
  }
  if (isRecord(part['inlineData']) || isRecord(part['fileData']))
    return { kind: 'attachment', part }
  return otherContent(part)
}

const ATTRIBUTES = new Set(['thought', 'thoughtSignature'])

/** A part without content may still hold a signature, which is then all that it is for. */
function otherContent(part: Fields): WithoutSignature<WirePart> {
  const type = Object.keys(part).find((name) => !ATTRIBUTES.has(name))
  if (type !== undefined) return { kind: 'unknown', type: `part.${type}` }
  return { kind: 'text', isThought: part['thought'] === true, text: '' }
}

function decodeCall(call: Fields): WireCall {
  const args = optionalRecord(call['args'], 'functionCall.args')
  return {
    kind: 'call',
    id: nonEmpty(call['id']),
    name: nonEmpty(call['name']),
    args: args === undefined ? undefined : JSON.stringify(args),
    partialArgs: listOf(call['partialArgs'], 'functionCall.partialArgs').flatMap(decodePartialArg),
    willContinue: call['willContinue'] === true,
  }
}

/** A piece without a value says only that there is more to come. */
function decodePartialArg(arg: unknown): PartialArg[] {
  if (!isRecord(arg) || typeof arg['jsonPath'] !== 'string') {
    throw new Malformed('an element of functionCall.partialArgs has no jsonPath')
  }
  const { jsonPath: path, stringValue, numberValue, boolValue } = arg
  const value = [stringValue, numberValue, boolValue].find(isScalar)
  if (value !== undefined) return [{ path, value }]
  return 'nullValue' in arg ? [{ path, value: null }] : []
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
}

function nonEmpty(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function listOf(value: unknown, name: string): readonly unknown[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw new Malformed(`${name} is not an array`)
  return value
}

function recordOf(value: unknown, name: string): Fields {
  if (!isRecord(value)) throw new Malformed(`${name} is not an object`)
  return value
}

function optionalRecord(value: unknown, name: string): Fields | undefined {
  return value === undefined || value === null ? undefined : recordOf(value, name)
}
