import { isRecord } from '@turnstream/core/internal/protocol/json'
import {
  type Fault,
  type Field,
  fieldFault,
  firstOf,
  isCount,
  isText,
  isWord,
  type Json,
  objectFault,
  type PlainAnswer,
  refusalRule,
  shown,
  type Test,
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
  const expected = 'every member of a response, null if empty'
  if (missing.length > 0) return { expected, came: `no ${missing.join(', ')}` }
  const { object, created_at: createdAt, model, output, tools, store } = response
  return fieldFault([
    ['object', object, '"response"', (value) => value === 'response'],
    ['created_at', createdAt, 'whole seconds', isCount],
    ['model', model, 'a text', isWord],
    ['output', output, 'a list', Array.isArray],
    ['tools', tools, 'a list', Array.isArray],
    ['store', store, 'true or false', (value) => typeof value === 'boolean'],
  ])
}

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
export const itemFault = (item: Json): Fault | undefined => fieldFault(itemFields(item))

const STATUSES: readonly unknown[] = ['in_progress', 'completed', 'incomplete']
const isStatus: Test = (value) => STATUSES.includes(value)

function itemFields(item: Json): readonly Field[] {
  const { type, status, role, content, call_id: callId, name, arguments: args, summary } = item
  switch (type) {
    case 'message':
      return [
        ['status', status, STATUSES.join(', '), isStatus],
        ['role', role, '"assistant"', (value) => value === 'assistant'],
        ['content', content, 'a list', Array.isArray],
        ...recordsIn(content).flatMap(partFields),
      ]
    case 'function_call':
      return [
        ['status', status, STATUSES.join(', '), isStatus],
        ['call_id', callId, 'a text of up to 64 characters', isCallId],
        ['name', name, 'a text', isWord],
        ['arguments', args, 'a text', isText],
      ]
    case 'reasoning':
      return [['summary', summary, 'a list', Array.isArray]]
    default:
      return [['type', type, 'a text', isWord]]
  }
}

const isCallId: Test = (value) => isText(value) && /^.{1,64}$/s.test(value)

function partFields({ type, text, annotations, logprobs }: Json): Field[] {
  if (type !== 'output_text') return []
  return [
    ['content.text', text, 'a text', isText],
    ['content.annotations', annotations, 'a list', Array.isArray],
    // Open Responses and strict clients require it, also without log probabilities.
    ['content.logprobs', logprobs, 'a list', Array.isArray],
  ]
}

export const outputOf = (response: Json): Json[] => recordsIn(response['output'])

function textOf(response: Json): string {
  const parts = outputOf(response).flatMap((item) => recordsIn(item['content']))
  const texts = parts.filter(({ type }) => type === 'output_text').map(({ text }) => text)
  return texts.filter(isText).join('')
}

export function answerFault(answer: PlainAnswer): Fault | undefined {
  return objectFault(answer, (response) => {
    const { status, output } = response
    if (status !== 'completed') {
      return { expected: 'status: "completed"', came: `status: ${shown(status)}` }
    }
    if (textOf(response) === '') {
      return { expected: 'a message with text in output', came: `output: ${shown(output)}` }
    }
    return (
      membersFault(response) ??
      usageFault(response) ??
      firstOf(outputOf(response), (item) => itemFault(item) ?? itemIdFault(item))
    )
  })
}

export const refusalFault = refusalRule(
  '{"error":{"message","type","param","code"}}',
  ({ error }) =>
    isRecord(error) &&
    [error['message'], error['type']].every(isWord) &&
    [error['param'], error['code']].every((value) => value === null || isText(value)),
)

const NOT_OFFERED = new Set([404, 405, 501])

/** Whether a server does not know a route that the standard makes optional. */
export const isNotOffered = (answer: Pick<Answer, 'status'>) => NOT_OFFERED.has(answer.status)
