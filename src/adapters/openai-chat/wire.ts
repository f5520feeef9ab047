/** The chunks of a Chat Completions stream, and how unknown JSON becomes one of them. */
import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import type { Usage } from '../../protocol/usage.ts'
import { errorOf, type Fields, usageOf } from './ending.ts'

export type TextKind = 'message' | 'reasoning' | 'refusal'

export interface TextPiece {
  kind: TextKind
  text: string
  /** The field under which the server says its reasoning, and may want it back. */
  field?: ReasoningField
}

export type ReasoningField = 'reasoning_content' | 'reasoning'

/** A piece of a tool call. Servers leave out, repeat and mix up what it is known by. */
export interface CallPiece {
  index: number | undefined
  id: string | undefined
  name: string | undefined
  fragment: string
  isCustom: boolean
  /** What the server wants back with the call: Gemini keeps its signature here. */
  extra: Fields | undefined
}

/** What is said of a message besides its words. */
export interface MessageExtras {
  annotations: readonly unknown[]
  images: readonly unknown[]
  extra: Fields | undefined
}

export interface ChatChoice {
  hasRole: boolean
  texts: readonly TextPiece[]
  reasoningDetails: readonly Fields[]
  extras: MessageExtras | undefined
  calls: readonly CallPiece[]
  finish: string | undefined
  unknownFields: readonly string[]
}

export interface ChatChunk {
  kind: 'chunk'
  id: string | undefined
  model: string | undefined
  /** The first choice. There are others only for who asks for them, and we do not. */
  choice: ChatChoice | undefined
  hasChoices: boolean
  usage: Usage | undefined
}

export type DecodedChunk =
  | ChatChunk
  | { kind: 'done' }
  | { kind: 'failed'; error: ErrorObject; usage: Usage | undefined }
  | { kind: 'unknown'; type: string }
  | { kind: 'malformed'; reason: string }

const DONE = '[DONE]'

/** Why a chunk could not be read; thrown inside this file only. */
class Malformed extends Error {}

export function decodeChunk(json: unknown): DecodedChunk {
  if (json === DONE) return { kind: 'done' }
  if (!isRecord(json)) return malformed('it is not an object')
  try {
    return decodeFields(json)
  } catch (error) {
    return malformed(error instanceof Malformed ? error.message : 'it cannot be read')
  }
}

function malformed(reason: string): DecodedChunk {
  return { kind: 'malformed', reason: `chat.completion.chunk: ${reason}` }
}

function decodeFields(json: Fields): DecodedChunk {
  const { error, choices } = json
  if (error) return { kind: 'failed', error: errorOf(error), usage: usageIn(json, {}) }
  if (!isChunk(json)) return { kind: 'unknown', type: nameOf(json) }
  const list = listOf(choices, 'choices')
  const first = list.map(record('choices')).find(isFirst)
  const usage = usageIn(json, first ?? {})
  if (first?.['error']) return { kind: 'failed', error: errorOf(first['error']), usage }
  const choice = first === undefined ? undefined : decodeChoice(first)
  if (choice?.finish === 'error') return { kind: 'failed', error: errorOf(undefined), usage }
  return {
    kind: 'chunk',
    id: nonEmpty(json['id']),
    model: nonEmpty(json['model']),
    choice,
    hasChoices: list.length > 0,
    usage,
  }
}

function isChunk(json: Fields): boolean {
  return 'choices' in json || 'usage' in json || json['object'] === 'chat.completion.chunk'
}

function nameOf({ type, object }: Fields): string {
  return nonEmpty(type) ?? nonEmpty(object) ?? 'an object without choices'
}

function isFirst({ index }: Fields): boolean {
  return index === 0 || index === undefined || index === null
}

/** Groq and Moonshot have places of their own for it. */
function usageIn(json: Fields, choice: Fields): Usage | undefined {
  const groq = isRecord(json['x_groq']) ? json['x_groq'] : {}
  return usageOf(json['usage']) ?? usageOf(groq['usage']) ?? usageOf(choice['usage'])
}

const KNOWN_FIELDS = new Set([
  'role',
  'content',
  'refusal',
  'reasoning_content',
  'reasoning',
  'reasoning_details',
  'annotations',
  'images',
  'extra_content',
  'tool_calls',
  'function_call',
])

/** Some servers send the whole `message` instead of a `delta`. */
function decodeChoice(choice: Fields): ChatChoice {
  const delta = optionalRecord(choice['delta'] ?? choice['message'], 'choices[0].delta') ?? {}
  const finish = choice['finish_reason'] ?? undefined
  if (finish !== undefined && typeof finish !== 'string') {
    throw new Malformed('choices[0].finish_reason is not a string')
  }
  return {
    hasRole: nonEmpty(delta['role']) !== undefined,
    texts: [...reasoningIn(delta), ...contentIn(delta), ...refusalIn(delta)],
    reasoningDetails: arrayOf(delta['reasoning_details']).filter(isRecord),
    extras: extrasIn(delta),
    calls: callsIn(delta),
    finish: nonEmpty(finish),
    unknownFields: Object.keys(delta).filter((name) => !KNOWN_FIELDS.has(name)),
  }
}

/** Servers that send both fields send the same text in both. */
function reasoningIn(delta: Fields): TextPiece[] {
  for (const field of ['reasoning_content', 'reasoning'] as const) {
    const text = nonEmpty(delta[field])
    if (text !== undefined) return [{ kind: 'reasoning', text, field }]
  }
  return []
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
  // Mistral thinks in a part that has parts.
  if (type === 'thinking') return arrayOf(thinking).flatMap(thinkingPart)
  return textPiece('message', text)
}

function thinkingPart(part: unknown): TextPiece[] {
  return isRecord(part) ? textPiece('reasoning', part['text']) : []
}

function refusalIn({ refusal }: Fields): TextPiece[] {
  return textPiece('refusal', refusal)
}

function textPiece(kind: TextKind, value: unknown): TextPiece[] {
  const text = nonEmpty(value)
  return text === undefined ? [] : [{ kind, text }]
}

function extrasIn(delta: Fields): MessageExtras | undefined {
  const annotations = arrayOf(delta['annotations'])
  const images = arrayOf(delta['images'])
  const extra = isRecord(delta['extra_content']) ? delta['extra_content'] : undefined
  const isEmpty = annotations.length === 0 && images.length === 0 && extra === undefined
  return isEmpty ? undefined : { annotations, images, extra }
}

function callsIn(delta: Fields): CallPiece[] {
  const calls = listOf(delta['tool_calls'], 'delta.tool_calls')
  const pieces = calls.map(record('delta.tool_calls')).map(callPiece)
  const legacy = optionalRecord(delta['function_call'], 'delta.function_call')
  return legacy === undefined ? pieces : [...pieces, callPiece({ function: legacy, index: 0 })]
}

function callPiece(call: Fields): CallPiece {
  const isCustom = call['type'] === 'custom' || isRecord(call['custom'])
  const place = isCustom ? 'custom' : 'function'
  const body = optionalRecord(call[place], `delta.tool_calls[].${place}`) ?? {}
  return {
    index: typeof call['index'] === 'number' ? call['index'] : undefined,
    id: nonEmpty(call['id']),
    name: nonEmpty(body['name']),
    fragment: fragmentOf(body[isCustom ? 'input' : 'arguments']),
    isCustom,
    extra: isRecord(call['extra_content']) ? call['extra_content'] : undefined,
  }
}

/** Arguments as an object are whole; an empty one is what servers send before the first fragment. */
function fragmentOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (!isRecord(value) || Object.keys(value).length === 0) return ''
  return JSON.stringify(value)
}

function nonEmpty(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function arrayOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** `null` is an empty list. */
function listOf(value: unknown, name: string): readonly unknown[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw new Malformed(`${name} is not an array`)
  return value
}

function record(name: string): (value: unknown) => Fields {
  return (value) => {
    if (!isRecord(value)) throw new Malformed(`an element of ${name} is not an object`)
    return value
  }
}

function optionalRecord(value: unknown, name: string): Fields | undefined {
  if (value === undefined || value === null) return undefined
  if (!isRecord(value)) throw new Malformed(`${name} is not an object`)
  return value
}
