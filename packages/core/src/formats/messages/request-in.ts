import { isRecord } from '../../protocol/json.ts'
import { nameList, nameSet } from '../fields.ts'
import { type Effort, effortOfBudget } from '../model-traits.ts'
import type { ThinkingParameters } from '../provider-request.ts'
import { IgnoredNames, omitNullish, typeName } from '../request-in.ts'
import { REFUSED } from '../request-schemas.ts'
import {
  ANTHROPIC_SPELLINGS,
  type ReadSettings,
  readSettings,
  refuseFormat,
  toEffort,
  toThinking,
} from '../request-settings.ts'
import { functionDefinition } from '../request-tools.ts'
import { type DecodedRequest, type SubmissionSettings, splitItems } from '../submission.ts'
import { decodeMessages, text } from './request-messages.ts'
import type { MessagesBody } from './schemas.ts'

/** What `POST /v1/messages/count_tokens` has of a request. */
export type Countable = Pick<MessagesBody, 'model' | 'messages' | 'system' | 'tools'> &
  Partial<Omit<MessagesBody, 'model' | 'messages' | 'system' | 'tools'>>

export function decodeMessagesRequest(body: Countable): DecodedRequest {
  const ignored = new IgnoredNames()
  const items = decodeMessages(body, ignored)
  const { settings, sources } = toSettings(body, ignored)
  return {
    submission: {
      model: body.model,
      ...splitItems(items),
      settings,
      // A client that brings tools has its own loop: it gets exactly these.
      ...(settings.tools !== undefined && { serverTools: false }),
      parameters: { model: body.model },
      settingSources: {
        ...sources,
        strict: ['tools[].strict'],
        longCallIds: ['messages[].content[].id'],
      },
    },
    ignored: ignored.list,
  }
}

type Tool = NonNullable<MessagesBody['tools']>[number]

/** A tool of the client. Tools that Anthropic runs have another type. */
function isClients({ type, name }: Tool): boolean {
  return (type == null || type === 'custom') && name != null && name !== ''
}

const TOOL = nameSet('type name description input_schema strict cache_control')

function toDefinition(tool: Tool, index: number) {
  const { name, input_schema: parameters, ...rest } = tool
  return functionDefinition(text(name, `tools.${index}.name`, 200), { ...rest, parameters })
}

function readTools(all: readonly Tool[], ignored: IgnoredNames) {
  for (const [index, tool] of all.entries()) {
    if (isClients(tool)) ignored.addUnknown(tool, TOOL, 'tools[]')
    else ignored.add(`tools[${index}] (${typeName(tool['type'])})`)
  }
  return all.filter(isClients).map(toDefinition)
}

const CHOICE = nameSet('type name disable_parallel_tool_use')

function toSettings(body: Countable, ignored: IgnoredNames): ReadSettings {
  const tools = readTools(body.tools ?? [], ignored)
  refuseFormat('output_config.format', body.output_config?.['format'])
  const read = readSettings(body, ANTHROPIC_SPELLINGS, PARAMETERS, ignored)
  const { tool_choice: choice } = body
  const toolChoice = toToolChoice(choice)
  if (choice != null && (toolChoice === undefined || tools.length === 0)) {
    ignored.add('tool_choice')
  }
  ignored.addUnknown(choice, CHOICE, 'tool_choice')
  const thinking = readThinking(body, ignored)
  const promptCache = readPromptCache(body)
  const { parallelToolCalls, ...settings } = read.settings
  const isSerial = choice?.['disable_parallel_tool_use'] === true || parallelToolCalls === false
  return {
    settings: {
      ...settings,
      ...thinking.settings,
      ...omitNullish({ promptCache }),
      ...(tools.length > 0 && {
        tools,
        ...omitNullish({ toolChoice }),
        ...(isSerial && { parallelToolCalls: false }),
      }),
    },
    sources: {
      ...read.sources,
      ...thinking.sources,
      ...(promptCache !== undefined && { promptCache: ['cache_control'] }),
      ...(isSerial && { parallelToolCalls: ['tool_choice.disable_parallel_tool_use'] }),
    },
  }
}

/** Wherever a request marks something for caching, the whole prompt is cached, for the longest time that it names. */
function readPromptCache({ system, messages, tools, ...body }: Countable): '5m' | '1h' | undefined {
  const contents = [system, ...messages.map(({ content }) => content)]
  const blocks = contents.flatMap((content) => (Array.isArray(content) ? content : []))
  const marks = [body, ...blocks, ...(tools ?? [])]
    .map((marked) => 'cache_control' in marked && marked['cache_control'])
    .filter(isRecord)
  if (marks.length === 0) return undefined
  return marks.some(({ ttl }) => ttl === '1h') ? '1h' : '5m'
}

function toToolChoice(
  choice: MessagesBody['tool_choice'],
): SubmissionSettings['toolChoice'] | undefined {
  switch (choice?.type) {
    case 'any':
      return 'required'
    case 'none':
    case 'auto':
      return choice.type
    case 'tool':
      return choice.name == null ? undefined : { name: choice.name }
    default:
      return undefined
  }
}

/** Anthropic gets what the client wrote, and other providers the effort that comes closest. */
function readThinking(
  { thinking: given, output_config, max_tokens }: Countable,
  ignored: IgnoredNames,
): ReadSettings {
  const named = output_config?.effort
  const effort = toEffort(named)
  const thinking = toThinking(given, (field) => ignored.add(`thinking.${field}`))
  if (given != null && thinking === undefined) ignored.add('thinking')
  if (named != null && effort === undefined) ignored.add('output_config.effort')
  if (thinking === undefined && effort === undefined) return { settings: {}, sources: {} }
  const { budgetTokens, display } = thinking ?? {}
  const paths = [
    ...(budgetTokens === undefined ? [] : ['thinking.budget_tokens']),
    ...(display === undefined ? [] : ['thinking.display']),
  ]
  const reasoningEffort = effort ?? impliedEffort(thinking, max_tokens)
  return {
    settings: {
      thinking: { ...thinking, ...(effort === undefined && { isEffortImplied: true }) },
      ...omitNullish({ reasoningEffort }),
    },
    sources: {
      thinking: paths.length > 0 ? paths : ['thinking'],
      reasoningEffort: [effort === undefined ? 'thinking' : 'output_config.effort'],
    },
  }
}

const MEDIUM_BUDGET = 8192

/** Undefined without thinking, or without room for it. */
function impliedEffort(
  { type, budgetTokens = MEDIUM_BUDGET }: ThinkingParameters = {},
  maxTokens: number | undefined,
): Effort | undefined {
  const isOn = type === 'enabled' || type === 'adaptive'
  return isOn ? effortOfBudget(budgetTokens, maxTokens) : undefined
}

/** Known parameters apart from hints. */
const PARAMETERS: readonly string[] = [
  ...nameList('cache_control messages model stream system thinking tool_choice tools'),
  'output_config.effort',
  ...Object.keys(REFUSED),
]
