/** Decodes the events of `streamGenerateContent`. */
import { isRecord } from '../../protocol/json.ts'
import {
  asCount,
  asFields,
  asNonEmpty,
  type Fields,
  firstOf,
  Malformed,
  nameList,
  nameSet,
  optionalFields,
  optionalList,
  requireFields,
} from '../fields.ts'
import { omitNullish } from '../request-in.ts'
import type { FinishReason } from '../translation.ts'

export const NAMESPACE = 'google'

/** Metadata of an item: the response's metadata, the item's signature, and `fields`. */
export type ItemMetadata = (
  signature: string | undefined,
  fields?: Fields,
  isExecutedByProvider?: boolean,
) => Fields

/** One argument value of a call, or a fragment of one. */
export interface PartialArg {
  path: string
  value: string | number | boolean | null
}

export type WirePart = ReturnType<typeof decodePart>

/** A call is complete unless it will be continued; its continuation has no name. */
export type WireCall = ReturnType<typeof decodeCall>

export type WireFinish = NonNullable<ReturnType<typeof finishOf>>

/** Counts so far; not every event repeats all of them. */
export type WireCounts = ReturnType<typeof countsOf>

export type GeminiEvent = ReturnType<typeof decodeEvent>

const KNOWN_FIELDS = ['candidates', 'promptFeedback', 'usageMetadata', 'modelVersion', 'responseId']

export function unknownType(json: Fields): string | undefined {
  if (KNOWN_FIELDS.some((name) => name in json)) return undefined
  return Object.keys(json)[0] ?? 'an empty object'
}

export function decodeEvent(json: Fields) {
  const candidate = firstOf(json['candidates'], 'candidates') ?? {}
  const content = optionalFields(candidate['content'], 'candidates[0].content') ?? {}
  return {
    responseId: asNonEmpty(json['responseId']),
    model: asNonEmpty(json['modelVersion']),
    parts: optionalList(content['parts'], 'content.parts').map(decodePart),
    sources: sourcesOf(candidate),
    finish: finishOf(candidate['finishReason']) ?? blockOf(json['promptFeedback']),
    counts: countsOf(json['usageMetadata']),
  }
}

function finishOf(reason: unknown) {
  if (reason === undefined || reason === null) return undefined
  const word = asNonEmpty(reason)
  if (word === undefined) throw new Malformed('candidates[0].finishReason is not a string')
  return { word, isBlocked: false }
}

function blockOf(feedback: unknown): WireFinish | undefined {
  const word = asNonEmpty(asFields(feedback)['blockReason'])
  return word === undefined ? undefined : { word, isBlocked: true }
}

function decodePart(value: unknown) {
  const part = requireFields(value, 'an element of content.parts')
  return { signature: asNonEmpty(part['thoughtSignature']), ...contentOf(part) }
}

function contentOf(part: Fields) {
  const { text, functionCall, executableCode, codeExecutionResult } = part
  if (text !== undefined && text !== null) {
    if (typeof text !== 'string') throw new Malformed('the text of a part is not a string')
    return { kind: 'text', isThought: part['thought'] === true, text } as const
  }
  if (functionCall) return decodeCall(requireFields(functionCall, 'functionCall'))
  if (executableCode) {
    const code = requireFields(executableCode, 'executableCode')
    const args = JSON.stringify({ language: code['language'], code: code['code'] })
    return { kind: 'code', id: asNonEmpty(code['id']), args, code } as const
  }
  if (codeExecutionResult) {
    const result = requireFields(codeExecutionResult, 'codeExecutionResult')
    const isOk = result['outcome'] === 'OUTCOME_OK'
    const output = asNonEmpty(result['output']) ?? ''
    return { kind: 'code_result', id: asNonEmpty(result['id']), isOk, output, result } as const
  }
  if (isRecord(part['inlineData']) || isRecord(part['fileData'])) {
    return { kind: 'attachment', part } as const
  }
  return otherContent(part)
}

const ATTRIBUTES = new Set(['thought', 'thoughtSignature'])

/** An empty part may still carry a signature. */
function otherContent(part: Fields) {
  const type = Object.keys(part).find((name) => !ATTRIBUTES.has(name))
  if (type !== undefined) return { kind: 'unknown', type: `part.${type}` } as const
  return { kind: 'text', isThought: part['thought'] === true, text: '' } as const
}

function decodeCall(call: Fields) {
  const args = optionalFields(call['args'], 'functionCall.args')
  const partialArgs = optionalList(call['partialArgs'], 'functionCall.partialArgs')
  return {
    kind: 'call' as const,
    id: asNonEmpty(call['id']),
    name: asNonEmpty(call['name']),
    args: args && JSON.stringify(args),
    partialArgs: partialArgs.flatMap(decodePartialArg),
    willContinue: call['willContinue'] === true,
  }
}

/** A fragment without a value only announces more. */
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

/** Grounding metadata of the complete answer. */
function sourcesOf(candidate: Fields): Fields {
  const sources = SOURCE_FIELDS.map((name) => [name, candidate[name]] as const)
  return Object.fromEntries(sources.filter(([, source]) => isRecord(source)))
}

const SOURCE_FIELDS = nameList('groundingMetadata urlContextMetadata citationMetadata')

export function countsOf(usage: unknown) {
  const fields = asFields(usage)
  return omitNullish({
    prompt: asCount(fields['promptTokenCount']),
    candidates: asCount(fields['candidatesTokenCount']),
    thoughts: asCount(fields['thoughtsTokenCount']),
    cached: asCount(fields['cachedContentTokenCount']),
    total: asCount(fields['totalTokenCount']),
  })
}

const FILTERS = nameSet(
  'SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII',
  'IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION',
)

/** The vendor also sends `STOP` when it waits for a call's output. */
export function finishReasonOf({ word, isBlocked }: WireFinish, hasCalls: boolean): FinishReason {
  if (isBlocked || FILTERS.has(word)) return 'content_filter'
  if (word === 'STOP') return hasCalls ? 'tool_calls' : 'stop'
  return word === 'MAX_TOKENS' ? 'length' : 'other'
}
