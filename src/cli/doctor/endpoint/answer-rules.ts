import { isRecord, parseJsonObject } from '../../../protocol/json.ts'
import type { Answer } from '../../http.ts'
import { clip } from '../../text.ts'
import type { Check } from '../check.ts'

/** Where a server differs from what clients expect. */
export interface Fault {
  readonly expected: string
  readonly came: string
}

const MAX_SHOWN = 160

/** Anything as one short line. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  return clip(typeof value === 'string' ? value : JSON.stringify(value), MAX_SHOWN)
}

export function faultCheck(name: string, fault: Fault | undefined, fine: string): Check {
  if (fault === undefined) return { name, verdict: 'ok', found: fine }
  return { name, verdict: 'fail', found: fault.came, expected: fault.expected }
}

type PlainAnswer = Pick<Answer, 'status' | 'body'>

export function modelsFault({ status, body }: PlainAnswer): Fault | undefined {
  const expected = '{"object":"list","data":[{"id":"…","object":"model"}]}'
  if (status !== 200) return { expected, came: `status ${status}: ${shown(body)}` }
  const json = parseJsonObject(body)
  const isList = json?.['object'] === 'list' && modelsOf(body) !== undefined
  return isList ? undefined : { expected, came: shown(body) }
}

/** The ids of a list of models; undefined where it is none. */
export function modelsOf(body: string): string[] | undefined {
  const data = parseJsonObject(body)?.['data']
  if (!Array.isArray(data)) return undefined
  const ids = data.map((each: unknown) => (isRecord(each) ? each['id'] : undefined))
  return ids.every((id) => typeof id === 'string') ? ids : undefined
}

type Json = Record<string, unknown>
type Test = (value: unknown) => boolean

export const isWord: Test = (value) => typeof value === 'string' && value !== ''

export const isCount: Test = (value) => Number.isSafeInteger(value) && Number(value) >= 0

export function isUsage(usage: unknown): boolean {
  if (!isRecord(usage)) return false
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage
  return [prompt, completion, total].every(isCount)
}

/** Each field of an answer: where it is, its value, what it takes, and whether that suits. */
function fieldsOf(
  json: Json,
): readonly [path: string, value: unknown, takes: string, suits: Test][] {
  const { id, object, created, model, choices, usage } = json
  const list: readonly unknown[] = Array.isArray(choices) ? choices : []
  const { index, message, finish_reason: finish } = isRecord(list[0]) ? list[0] : {}
  const { role, content } = isRecord(message) ? message : {}
  return [
    ['id', id, 'a text', isWord],
    ['object', object, '"chat.completion"', (value) => value === 'chat.completion'],
    ['created', created, 'whole seconds', Number.isSafeInteger],
    ['model', model, 'a text', isWord],
    ['choices', choices, 'a list of one', () => list.length === 1],
    ['choices[0].index', index, '0', (value) => value === 0],
    ['choices[0].message.role', role, '"assistant"', (value) => value === 'assistant'],
    ['choices[0].message.content', content, 'a text', (value) => typeof value === 'string'],
    ['choices[0].finish_reason', finish, 'a text', isWord],
    ['usage', usage, 'counts of tokens', isUsage],
  ]
}

/** The answer to a call that asks for no stream. */
export function answerFault({ status, body }: PlainAnswer): Fault | undefined {
  if (status !== 200) return { expected: 'status 200', came: `status ${status}: ${shown(body)}` }
  const json = parseJsonObject(body)
  if (json === undefined) return { expected: 'a JSON object', came: shown(body) }
  const missed = fieldsOf(json).find(([, value, , suits]) => !suits(value))
  if (missed === undefined) return undefined
  const [path, value, takes] = missed
  return { expected: `${path}: ${takes}`, came: `${path}: ${shown(value)}` }
}

/** A refusal: its status, and an object that says why. */
export function refusalFault(
  { status, body }: PlainAnswer,
  statuses: readonly number[],
): Fault | undefined {
  const expected = `status ${statuses.join(' or ')} with {"error":{"message":"…"}}`
  const error = parseJsonObject(body)?.['error']
  const says = isRecord(error) && typeof error['message'] === 'string' && error['message'] !== ''
  if (statuses.includes(status) && says) return undefined
  return { expected, came: `status ${status}: ${shown(body)}` }
}
