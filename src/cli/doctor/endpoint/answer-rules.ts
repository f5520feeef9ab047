import { isRecord, parseJsonObject } from '../../../protocol/json.ts'
import { type Fault, shown } from './fault.ts'
import { isUsage } from './stream-rules.ts'

/** An answer that is no stream. */
export interface PlainAnswer {
  readonly status: number
  readonly body: string
}

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

interface Field {
  readonly path: string
  readonly takes: string
  readonly of: (json: Json) => unknown
  readonly suits: (value: unknown) => boolean
}

const isText = (value: unknown): boolean => typeof value === 'string'
const isWord = (value: unknown): boolean => typeof value === 'string' && value !== ''
const is = (expected: unknown) => (value: unknown) => value === expected

const FIELDS: readonly Field[] = [
  { path: 'id', takes: 'a text', of: ({ id }) => id, suits: isWord },
  {
    path: 'object',
    takes: '"chat.completion"',
    of: ({ object }) => object,
    suits: is('chat.completion'),
  },
  {
    path: 'created',
    takes: 'whole seconds',
    of: ({ created }) => created,
    suits: Number.isSafeInteger,
  },
  { path: 'model', takes: 'a text', of: ({ model }) => model, suits: isWord },
  {
    path: 'choices',
    takes: 'a list of one',
    of: ({ choices }) => choices,
    suits: (choices) => Array.isArray(choices) && choices.length === 1,
  },
  { path: 'choices[0].index', takes: '0', of: (json) => choiceOf(json)['index'], suits: is(0) },
  {
    path: 'choices[0].message.role',
    takes: '"assistant"',
    of: (json) => messageOf(json)['role'],
    suits: is('assistant'),
  },
  {
    path: 'choices[0].message.content',
    takes: 'a text',
    of: (json) => messageOf(json)['content'],
    suits: isText,
  },
  {
    path: 'choices[0].finish_reason',
    takes: 'a text',
    of: (json) => choiceOf(json)['finish_reason'],
    suits: isWord,
  },
  { path: 'usage', takes: 'counts of tokens', of: ({ usage }) => usage, suits: isUsage },
]

function choiceOf({ choices }: Json): Json {
  const [choice] = Array.isArray(choices) ? (choices as unknown[]) : []
  return isRecord(choice) ? choice : {}
}

function messageOf(json: Json): Json {
  const { message } = choiceOf(json)
  return isRecord(message) ? message : {}
}

/** The answer to a call that asks for no stream. */
export function answerFault({ status, body }: PlainAnswer): Fault | undefined {
  if (status !== 200) return { expected: 'status 200', came: `status ${status}: ${shown(body)}` }
  const json = parseJsonObject(body)
  if (json === undefined) return { expected: 'a JSON object', came: shown(body) }
  const missed = FIELDS.find(({ of, suits }) => !suits(of(json)))
  if (missed === undefined) return undefined
  const { path, takes, of } = missed
  return { expected: `${path}: ${takes}`, came: `${path}: ${shown(of(json))}` }
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
