import { type NamedTool, namedTools } from '../../dialects/responses/tool-names.ts'
import { isRecord } from '../../protocol/json.ts'
import type { HistoryItem, Submission, TurnSettings } from '../../turns/turn-request.ts'
import { omitNullish, type SubmitHeaders, toSubmission } from '../routes/submit.ts'
import { ParameterError } from './errors.ts'
import { decodeResponsesInput, type FindItem, splitItems } from './responses-input.ts'
import { MAX_INPUT_ITEMS, type ResponsesBody } from './responses-schemas.ts'

/** What a request refers to. */
export interface Earlier {
  /** The context of `previous_response_id`. */
  readonly items: readonly HistoryItem[]
  readonly findItem: FindItem
}

export interface ResponsesTurn {
  readonly submission: Submission
  /** What was ignored, for a header. */
  readonly ignored: readonly string[]
}

/** Maps a request to a turn. Throws ParameterError. */
export function responsesSubmission(
  body: ResponsesBody,
  headers: SubmitHeaders,
  { items: earlier, findItem }: Earlier,
): ResponsesTurn {
  const allTools = [...(body.tools ?? []), ...additionalTools(body.input)]
  const tools = namedTools(allTools)
  const hosted = allTools.flatMap((tool, index) => hostedName(tool, index))
  const said = decodeResponsesInput(body.input, tools, findItem)
  const { instructions } = body
  const items: HistoryItem[] = [
    ...(instructions
      ? [{ type: 'message', origin: 'system', content: instructions } as const]
      : []),
    ...earlier,
    ...said.items,
  ]
  if (items.length > MAX_INPUT_ITEMS) {
    throw new ParameterError('input', `has more than ${MAX_INPUT_ITEMS} items with those before it`)
  }
  const { settings, ignored } = toSettings(body, tools)
  return {
    submission: {
      ...toSubmission({ model: body.model }, headers),
      ...splitItems(items),
      settings,
      // A client that brings tools has its own loop: it gets exactly these.
      ...(tools.length > 0 && { serverTools: false }),
      parameters: toParameters(body, allTools),
    },
    ignored: [...hosted, ...said.ignored, ...ignored, ...unknownFields(body)],
  }
}

/** codex sends tools as items, too. */
function additionalTools(input: ResponsesBody['input']): unknown[] {
  if (typeof input === 'string') return []
  return input.flatMap((item) => {
    const tools = item.type === 'additional_tools' ? item['tools'] : undefined
    return Array.isArray(tools) ? tools : []
  })
}

function isHosted(tool: unknown): boolean {
  return namedTools([tool]).length === 0
}

function hostedName(tool: unknown, index: number): string[] {
  if (!isHosted(tool)) return []
  const type = isRecord(tool) ? tool['type'] : undefined
  return [`tools[${index}] (${typeof type === 'string' ? type.slice(0, 64) : typeof type})`]
}

const MAX_SCHEMA_CHARS = 200_000
const MAX_DESCRIPTION_CHARS = 20_000

function toDefinition({ flatName: name, isCustom, tool }: NamedTool) {
  const { description, parameters, strict, format } = tool
  const about = typeof description === 'string' ? description : ''
  if (isCustom) return customDefinition(name, about, format)
  const schema = isRecord(parameters) ? parameters : { type: 'object', properties: {} }
  if (JSON.stringify(schema).length > MAX_SCHEMA_CHARS) {
    throw new ParameterError('tools', `the schema of ${name} is too large`)
  }
  return {
    name,
    ...(about !== '' && { description: about.slice(0, MAX_DESCRIPTION_CHARS) }),
    parameters: schema,
    ...(typeof strict === 'boolean' && { strict }),
  }
}

/** Only OpenAI's own models know grammars. Others read it in the description. */
function customDefinition(name: string, about: string, format: unknown) {
  const grammar = isRecord(format) ? format['definition'] : undefined
  const rule =
    typeof grammar === 'string' ? `\n\nThe input must match this grammar:\n${grammar}` : ''
  return {
    name,
    description: `${about}${rule}`.slice(0, MAX_DESCRIPTION_CHARS),
    parameters: {
      type: 'object',
      properties: { input: { type: 'string' } },
      required: ['input'],
      additionalProperties: false,
    },
  }
}

const EFFORTS: Record<string, NonNullable<TurnSettings['reasoningEffort']>> = {
  none: 'none',
  minimal: 'minimal',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
}

function toSettings(
  body: ResponsesBody,
  tools: readonly NamedTool[],
): { settings: TurnSettings; ignored: string[] } {
  const ignored: string[] = []
  const { effort } = body.reasoning ?? {}
  const reasoningEffort = effort ? EFFORTS[effort] : undefined
  if (effort && reasoningEffort === undefined) ignored.push('reasoning.effort')
  if (body.text?.['verbosity'] != null) ignored.push('text.verbosity')
  const toolChoice = toToolChoice(body.tool_choice, tools)
  if (body.tool_choice != null && toolChoice === undefined) ignored.push('tool_choice')
  const settings = omitNullish({
    tools: tools.length > 0 ? tools.map(toDefinition) : undefined,
    toolChoice,
    parallelToolCalls: tools.length > 0 ? body.parallel_tool_calls : undefined,
    responseFormat: toResponseFormat(body.text?.format),
    reasoningEffort,
    maxOutputTokens: body.max_output_tokens,
    temperature: body.temperature,
    topP: body.top_p,
  })
  return { settings, ignored }
}

function toToolChoice(
  choice: ResponsesBody['tool_choice'],
  tools: readonly NamedTool[],
): TurnSettings['toolChoice'] | undefined {
  const mode = isRecord(choice) && choice.type === 'allowed_tools' ? choice['mode'] : choice
  if (mode === 'auto' || mode === 'none') return mode
  if (tools.length === 0) return undefined
  if (mode === 'required') return mode
  if (!isRecord(choice)) return undefined
  const named = tools.find(({ name }) => name === choice['name'])
  return named && { name: named.flatName }
}

function toResponseFormat(format: unknown): TurnSettings['responseFormat'] | undefined {
  if (!isRecord(format)) return undefined
  const { type, name, schema, strict } = format
  if (type === 'json_object') return { type }
  if (type !== 'json_schema') return undefined
  if (typeof name !== 'string' || !isRecord(schema)) {
    throw new ParameterError('text.format', 'must have a name and a schema')
  }
  if (JSON.stringify(schema).length > MAX_SCHEMA_CHARS) {
    throw new ParameterError('text.format.schema', `is larger than ${MAX_SCHEMA_CHARS} characters`)
  }
  return { type, name, schema, ...(typeof strict === 'boolean' && { strict }) }
}

/** Parameters that the response repeats. */
const REPEATED = [
  'background',
  'include',
  'instructions',
  'max_output_tokens',
  'metadata',
  'model',
  'parallel_tool_calls',
  'previous_response_id',
  'prompt_cache_key',
  'safety_identifier',
  'store',
  'temperature',
  'text',
  'tool_choice',
  'top_p',
] as const

function toParameters(body: ResponsesBody, tools: readonly unknown[]): Record<string, unknown> {
  const repeated = REPEATED.map((name) => [name, body[name]] as const)
  const { effort = null, summary = null } = body.reasoning ?? {}
  const kept = tools.filter((tool) => !isHosted(tool))
  return omitNullish({
    ...Object.fromEntries(repeated),
    reasoning: body.reasoning ? { effort, summary } : undefined,
    tools: kept.length > 0 ? kept : undefined,
  })
}

const HONOURED: ReadonlySet<string> = new Set([
  ...REPEATED,
  'input',
  'reasoning',
  'stream',
  'tools',
  'top_logprobs',
])

function unknownFields(body: ResponsesBody): string[] {
  return Object.entries(body)
    .filter(([name, value]) => !HONOURED.has(name) && value !== null && value !== undefined)
    .map(([name]) => name)
}
