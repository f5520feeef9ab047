import { isRecord, parseJsonObject } from '@turnstream/core/internal/protocol/json'
import {
  type Fault,
  type Field,
  fieldFault,
  isCount,
  isWord,
  type Json,
  type PlainAnswer,
  shown,
} from './fault.ts'
import type { Answer } from './http.ts'
import { recordsIn } from './recording.ts'

/** Every member is required: strict clients refuse a response without one. */
const MEMBERS = [
  'id',
  'object',
  'created_at',
  'completed_at',
  'status',
  'background',
  'error',
  'incomplete_details',
  'instructions',
  'max_output_tokens',
  'max_tool_calls',
  'model',
  'output',
  'parallel_tool_calls',
  'previous_response_id',
  'prompt_cache_key',
  'reasoning',
  'safety_identifier',
  'service_tier',
  'store',
  'temperature',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'text',
  'tool_choice',
  'tools',
  'top_logprobs',
  'truncation',
  'usage',
  'metadata',
] as const

export function membersFault(response: Json): Fault | undefined {
  const missing = MEMBERS.filter((name) => response[name] === undefined)
  if (missing.length > 0) {
    return {
      expected: 'every member of a response, null if empty',
      came: `no ${missing.join(', ')}`,
    }
  }
  return fieldFault([
    ['object', response['object'], '"response"', (value) => value === 'response'],
    ['created_at', response['created_at'], 'whole seconds', isCount],
    ['model', response['model'], 'a text', isWord],
    ['output', response['output'], 'a list', Array.isArray],
    ['tools', response['tools'], 'a list', Array.isArray],
    ['store', response['store'], 'true or false', (value) => typeof value === 'boolean'],
  ])
}

/** The usage of a response that has ended. */
export function usageFault({ usage }: Json): Fault | undefined {
  const expected = 'input_tokens, output_tokens, their sum, and the details of both'
  const came = `usage: ${shown(usage)}`
  if (!isRecord(usage)) return { expected, came }
  const { input_tokens: input, output_tokens: output, total_tokens: total } = usage
  const { input_tokens_details: read, output_tokens_details: written } = usage
  const counts = [
    input,
    output,
    total,
    isRecord(read) ? read['cached_tokens'] : undefined,
    isRecord(written) ? written['reasoning_tokens'] : undefined,
  ]
  const isWhole = counts.every(isCount) && Number(input) + Number(output) === total
  return isWhole ? undefined : { expected, came }
}

const PREFIXES: Readonly<Record<string, string>> = {
  message: 'msg_',
  function_call: 'fc_',
  reasoning: 'rs_',
  custom_tool_call: 'ctc_',
}

/** Whether the id of an item has the prefix of its type. Clients drop other ids. */
export function itemIdFault({ type, id }: Json): Fault | undefined {
  const prefix = Object.hasOwn(PREFIXES, shown(type)) ? PREFIXES[shown(type)] : ''
  if (typeof id === 'string' && id !== '' && id.startsWith(prefix ?? '')) return undefined
  return { expected: `an id that starts with ${prefix}`, came: `${shown(type)} ${shown(id)}` }
}

/** The fault of an item that is not as clients decode it. */
export function itemFault(item: Json): Fault | undefined {
  return fieldFault(itemFields(item))
}

const isText = (value: unknown): boolean => typeof value === 'string'
const STATUSES: readonly unknown[] = ['in_progress', 'completed', 'incomplete']

function itemFields(item: Json): readonly Field[] {
  const status: Field = [
    'status',
    item['status'],
    STATUSES.join(', '),
    (value) => STATUSES.includes(value),
  ]
  switch (item['type']) {
    case 'message':
      return [
        status,
        ['role', item['role'], '"assistant"', (value) => value === 'assistant'],
        ['content', item['content'], 'a list', Array.isArray],
        ...recordsIn(item['content']).flatMap(partFields),
      ]
    case 'function_call':
      return [
        status,
        ['call_id', item['call_id'], 'a text of up to 64 characters', isCallId],
        ['name', item['name'], 'a text', isWord],
        ['arguments', item['arguments'], 'a text', isText],
      ]
    case 'reasoning':
      return [['summary', item['summary'], 'a list', Array.isArray]]
    default:
      return [['type', item['type'], 'a text', isWord]]
  }
}

const MAX_CALL_ID_CHARS = 64

function isCallId(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && value.length <= MAX_CALL_ID_CHARS
}

function partFields(part: Json): Field[] {
  if (part['type'] !== 'output_text') return []
  return [
    ['content.text', part['text'], 'a text', isText],
    ['content.annotations', part['annotations'], 'a list', Array.isArray],
    // Open Responses and strict clients require it, also without log probabilities.
    ['content.logprobs', part['logprobs'], 'a list', Array.isArray],
  ]
}

/** The output items of a response. */
export function outputOf(response: Json): Json[] {
  return recordsIn(response['output'])
}

/** The text of a response. */
function textOf(response: Json): string {
  const parts = outputOf(response).flatMap((item) => recordsIn(item['content']))
  const texts = parts.filter(({ type }) => type === 'output_text').map(({ text }) => text)
  return texts.filter((text) => typeof text === 'string').join('')
}

/** The response in a body; undefined if it is not an object. */
export function responseIn({ body }: PlainAnswer): Json | undefined {
  return parseJsonObject(body)
}

/** Checks a response without streaming. */
export function answerFault(answer: PlainAnswer): Fault | undefined {
  const { status, body } = answer
  if (status !== 200) return { expected: 'status 200', came: `status ${status}: ${shown(body)}` }
  const response = responseIn(answer)
  if (response === undefined) return { expected: 'a JSON object', came: shown(body) }
  if (response['status'] !== 'completed') {
    return { expected: 'status: "completed"', came: `status: ${shown(response['status'])}` }
  }
  if (textOf(response) !== '') return undefined
  return { expected: 'a message with text in output', came: `output: ${shown(response['output'])}` }
}

/** Checks an error response: its status, and an error object with all members. */
export function refusalFault(
  { status, body }: PlainAnswer,
  statuses: readonly number[],
): Fault | undefined {
  const expected = `status ${statuses.join(' or ')} with {"error":{"message","type","param","code"}}`
  const error = parseJsonObject(body)?.['error']
  const isShaped =
    isRecord(error) &&
    [error['message'], error['type']].every(isWord) &&
    [error['param'], error['code']].every((value) => value === null || typeof value === 'string')
  if (statuses.includes(status) && isShaped) return undefined
  return { expected, came: `status ${status}: ${shown(body)}` }
}

const NOT_OFFERED = new Set([404, 405, 501])

/** Whether a server does not know a route that the standard makes optional. */
export function isNotOffered(answer: Pick<Answer, 'status'>): boolean {
  return NOT_OFFERED.has(answer.status)
}
