import type { Submission, TurnSettings } from '../../turns/turn-request.ts'
import type { ChatBody } from '../schemas/chat-completions.ts'
import { type SubmitHeaders, submissionOf } from '../submission.ts'
import { threadOf } from './thread.ts'

/** The turn that a request asks for: one in a new thread, which is made of its messages. */
export function chatSubmission(body: ChatBody, headers: SubmitHeaders): Submission {
  const { history, input } = threadOf(body.messages)
  const submission = submissionOf({ model: body.model }, headers)
  const settings = settingsOf(body)
  return { ...submission, settings, input, ...(history.length > 0 && { history }) }
}

/** What is kept with the thread; undefined if there is nothing. */
export function keptMetadata(body: ChatBody): Record<string, unknown> | undefined {
  const { user, safety_identifier, prompt_cache_key, store, metadata } = body
  const given = Object.entries({ user, safety_identifier, prompt_cache_key, store, metadata })
  const kept = given.filter(([, value]) => value !== undefined && value !== null)
  return kept.length === 0 ? undefined : Object.fromEntries(kept)
}

function settingsOf(body: ChatBody): TurnSettings {
  const max = body.max_completion_tokens ?? body.max_tokens
  const { stop } = body
  return withoutNothing({
    tools: body.tools?.map(({ function: each }) => toolOf(each)),
    toolChoice: toolChoiceOf(body.tool_choice),
    parallelToolCalls: body.parallel_tool_calls,
    responseFormat: responseFormatOf(body.response_format),
    reasoningEffort: body.reasoning_effort,
    maxOutputTokens: max,
    temperature: body.temperature,
    topP: body.top_p,
    stop: typeof stop === 'string' ? [stop] : stop,
  })
}

type Tool = NonNullable<ChatBody['tools']>[number]['function']

function toolOf({ name, description, parameters, strict }: Tool) {
  return {
    name,
    ...(description != null && { description }),
    // Without any, a function takes none.
    parameters: parameters ?? { type: 'object', properties: {} },
    ...(strict != null && { strict }),
  }
}

function toolChoiceOf(choice: ChatBody['tool_choice']): TurnSettings['toolChoice'] {
  if (choice === undefined || choice === null) return undefined
  return typeof choice === 'string' ? choice : { name: choice.function.name }
}

function responseFormatOf(format: ChatBody['response_format']): TurnSettings['responseFormat'] {
  if (format === undefined || format === null) return undefined
  if (format.type !== 'json_schema') return format
  const { name, schema, strict } = format.json_schema
  return { type: 'json_schema', name, schema, ...(strict != null && { strict }) }
}

/** Without the fields that say nothing. */
function withoutNothing<T extends object>(fields: T): { [Name in keyof T]?: NonNullable<T[Name]> } {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null)
  return Object.fromEntries(given) as { [Name in keyof T]?: NonNullable<T[Name]> }
}
