/** Decodes the chunks of a Chat Completions stream. */

import { isRecord } from '../../protocol/json.ts'
import type { Usage } from '../../protocol/stream-event.ts'
import {
  asCount,
  asFields,
  asList,
  asNonEmpty,
  type Fields,
  firstOf,
  isEmpty,
  Malformed,
  nameSet,
  openaiCounts,
  optionalFields,
  optionalList,
  requireFields,
  toError,
  toUsage,
} from '../fields.ts'
import type { FinishReason } from '../translation.ts'

export type TextKind = 'message' | 'reasoning' | 'refusal'

export type TextPiece = ReturnType<typeof textPiece>[number]

/** The fields in which servers send reasoning, and may want it back. */
const REASONING_FIELDS = ['reasoning_content', 'reasoning'] as const
export type ReasoningField = (typeof REASONING_FIELDS)[number]

/** A fragment of a tool call. Servers omit, repeat and confuse its identifiers. */
export type CallPiece = ReturnType<typeof callPiece>

/** Other fields of a message besides its text. */
export type MessageExtras = NonNullable<ReturnType<typeof extrasIn>>

export type ContentChoice = ReturnType<typeof decodeChoice>

export type ContentChunk = Extract<ReturnType<typeof decodeChunk>, { kind: 'chunk' }>

export function decodeChunk(json: Fields) {
  const { error, choices } = json
  if (error) return failed(error, usageIn(json, {}))
  if (!isChunk(json)) return { kind: 'unknown', type: nameOf(json) } as const
  const first = firstOf(choices, 'choices')
  const usage = usageIn(json, first ?? {})
  if (first?.['error']) return failed(first['error'], usage)
  const choice = first === undefined ? undefined : decodeChoice(first)
  if (choice?.finish === 'error') return failed(undefined, usage)
  return {
    kind: 'chunk' as const,
    id: asNonEmpty(json['id']),
    model: asNonEmpty(json['model']),
    choice,
    hasChoices: asList(choices).length > 0,
    usage,
  }
}

function failed(error: unknown, usage: Usage | undefined) {
  return { kind: 'failed', error: toError(error, 'code', 'type'), usage } as const
}

function isChunk(json: Fields): boolean {
  return 'choices' in json || 'usage' in json || json['object'] === 'chat.completion.chunk'
}

function nameOf({ type, object }: Fields): string {
  return asNonEmpty(type) ?? asNonEmpty(object) ?? 'an object without choices'
}

/** Groq and Moonshot have their own fields for it. */
function usageIn(json: Fields, choice: Fields): Usage | undefined {
  const groq = asFields(json['x_groq'])
  return usageOf(json['usage']) ?? usageOf(groq['usage']) ?? usageOf(choice['usage'])
}

const KNOWN_FIELDS = nameSet(
  'role content refusal reasoning_content reasoning reasoning_details',
  'annotations images extra_content tool_calls function_call',
)

/** Some servers send the complete `message` instead of a `delta`. */
function decodeChoice(choice: Fields) {
  const delta = optionalFields(choice['delta'] ?? choice['message'], 'choices[0].delta') ?? {}
  const finish = choice['finish_reason'] ?? undefined
  if (finish !== undefined && typeof finish !== 'string') {
    throw new Malformed('choices[0].finish_reason is not a string')
  }
  return {
    hasRole: asNonEmpty(delta['role']) !== undefined,
    texts: [...reasoningIn(delta), ...contentIn(delta), ...textPiece('refusal', delta['refusal'])],
    reasoningDetails: asList(delta['reasoning_details']).filter(isRecord),
    extras: extrasIn(delta),
    calls: callsIn(delta),
    finish: asNonEmpty(finish),
    unknownFields: Object.keys(delta).filter((name) => !KNOWN_FIELDS.has(name)),
  }
}

/** Servers that send both fields send the same text in both. */
function reasoningIn(delta: Fields): TextPiece[] {
  const field = REASONING_FIELDS.find((name) => asNonEmpty(delta[name]) !== undefined)
  return field === undefined ? [] : textPiece('reasoning', delta[field], field)
}

function contentIn({ content }: Fields): TextPiece[] {
  if (content === undefined || content === null) return []
  if (typeof content === 'string') return textPiece('message', content)
  if (!Array.isArray(content)) throw new Malformed('delta.content is neither text nor parts')
  return content.flatMap(contentPart)
}

function contentPart(part: unknown): TextPiece[] {
  if (typeof part === 'string') return textPiece('message', part)
  if (!isRecord(part)) throw new Malformed('a part of delta.content is not an object')
  const { type, text, refusal, thinking } = part
  if (type === 'refusal') return textPiece('refusal', refusal)
  // Mistral sends reasoning as a part with nested parts.
  if (type === 'thinking') return asList(thinking).flatMap(thinkingPart)
  return textPiece('message', text)
}

function thinkingPart(part: unknown): TextPiece[] {
  return isRecord(part) ? textPiece('reasoning', part['text']) : []
}

function textPiece(kind: TextKind, value: unknown, field?: ReasoningField) {
  const text = asNonEmpty(value)
  return text === undefined ? [] : [{ kind, text, field }]
}

function extrasIn(delta: Fields) {
  const annotations = asList(delta['annotations'])
  const images = asList(delta['images'])
  const extra = isRecord(delta['extra_content']) ? delta['extra_content'] : undefined
  const isEmpty = annotations.length === 0 && images.length === 0 && extra === undefined
  return isEmpty ? undefined : { annotations, images, extra }
}

function callsIn(delta: Fields): CallPiece[] {
  const pieces = optionalList(delta['tool_calls'], 'delta.tool_calls').map((call) =>
    callPiece(requireFields(call, 'an element of delta.tool_calls')),
  )
  const legacy = optionalFields(delta['function_call'], 'delta.function_call')
  return legacy === undefined ? pieces : [...pieces, callPiece({ function: legacy, index: 0 })]
}

function callPiece(call: Fields) {
  const isCustom = call['type'] === 'custom' || isRecord(call['custom'])
  const place = isCustom ? 'custom' : 'function'
  const body = optionalFields(call[place], `delta.tool_calls[].${place}`) ?? {}
  return {
    index: typeof call['index'] === 'number' ? call['index'] : undefined,
    id: asNonEmpty(call['id']),
    name: asNonEmpty(body['name']),
    fragment: fragmentOf(body[isCustom ? 'input' : 'arguments']),
    isCustom,
    /** Sent back with the call: Gemini stores its signature here. */
    extra: isRecord(call['extra_content']) ? call['extra_content'] : undefined,
  }
}

/** Arguments as an object are complete; servers send an empty one before the first fragment. */
function fragmentOf(value: unknown): string {
  if (typeof value === 'string') return value
  return isRecord(value) && !isEmpty(value) ? JSON.stringify(value) : ''
}

/** Undefined without any counts. */
function usageOf(value: unknown): Usage | undefined {
  const usage = asFields(value)
  const counts = openaiCounts(usage, 'prompt', 'completion')
  if (counts.prompt === undefined && counts.completion === undefined) return undefined
  // DeepSeek's own field for cached tokens.
  return toUsage({ ...counts, cached: counts.cached ?? asCount(usage['prompt_cache_hit_tokens']) })
}

const FINISH_REASONS = new Map<string, FinishReason>([
  ['stop', 'stop'],
  ['eos', 'stop'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['model_length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['content_filter', 'content_filter'],
])

/** Many servers send `stop` after calls that await their outputs. */
export function finishReasonOf(word: string, hasCalls: boolean, isRefusal: boolean): FinishReason {
  const reason = FINISH_REASONS.get(word) ?? 'other'
  if (reason !== 'stop') return reason
  if (hasCalls) return 'tool_calls'
  return isRefusal ? 'refusal' : 'stop'
}
