import { isRecord } from '../../protocol/json.ts'
import { customDefinition } from '../custom-tools.ts'
import { asFields, asList, asNonEmpty, nameList, nameSet } from '../fields.ts'
import { ParameterError } from '../openai-errors.ts'
import { IgnoredNames, omitNullish, typeName } from '../request-in.ts'
import { REFUSED } from '../request-schemas.ts'
import {
  OPENAI_SPELLINGS,
  type ReadSettings,
  readSettings,
  refuseFormat,
  toEffort,
  toSummary,
} from '../request-settings.ts'
import { allowedTools, functionDefinition, ToolIndex } from '../request-tools.ts'
import {
  type DecodedRequest,
  type HistoryItem,
  type SubmissionSettings,
  splitItems,
} from '../submission.ts'
import { decodeResponsesInput, type FindItem, OPAQUE } from './request-items.ts'
import { MAX_INPUT_ITEMS, type ResponsesBody } from './schemas.ts'
import { type NamedTool, namedTools } from './tool-names.ts'

export interface Earlier {
  /** The context of `previous_response_id`. */
  readonly items: readonly HistoryItem[]
  readonly findItem: FindItem
}

export function decodeResponsesRequest(
  body: ResponsesBody,
  { items: earlier, findItem }: Earlier,
): DecodedRequest {
  const inputItems = typeof body.input === 'string' ? [] : body.input
  // codex sends tools as items, too.
  const additional = inputItems.filter(({ type }) => type === 'additional_tools')
  const allTools = [body, ...additional].flatMap(({ tools }) => asList(tools))
  const tools = namedTools(allTools)
  const ignored = new IgnoredNames()
  for (const [index, tool] of allTools.entries()) ignoreTool(tool, index, ignored)
  const given = decodeResponsesInput(body.input, tools, findItem, ignored)
  const { instructions } = body
  const items: HistoryItem[] = [
    ...(instructions
      ? [{ type: 'message', origin: 'system', content: instructions } as const]
      : []),
    ...earlier,
    ...given,
  ]
  if (items.length > MAX_INPUT_ITEMS) {
    const why = `has more than ${MAX_INPUT_ITEMS} items, including earlier responses`
    throw new ParameterError('input', why)
  }
  const { settings, sources } = toSettings(body, tools, ignored)
  const hasCompaction = inputItems.some(({ type }) => OPAQUE.has(type))
  return {
    submission: {
      model: body.model,
      ...splitItems(items),
      settings,
      // A client that brings tools has its own loop: it gets exactly these.
      ...(tools.length > 0 && { serverTools: false }),
      parameters: toParameters(body, allTools),
      settingSources: {
        ...sources,
        strict: ['tools[].strict'],
        longCallIds: ['input[].call_id'],
        ...(hasCompaction && { compaction: ['input[] (compaction)'] }),
      },
    },
    ignored: ignored.list,
  }
}

function isHosted(tool: unknown): boolean {
  return namedTools([tool]).length === 0
}

const TOOL = nameSet('type name description parameters strict format tools')

function ignoreTool(tool: unknown, index: number, ignored: IgnoredNames): void {
  if (!isHosted(tool)) return ignored.addUnknown(tool, TOOL, 'tools[]')
  ignored.add(`tools[${index}] (${typeName(isRecord(tool) ? tool['type'] : undefined)})`)
}

function toDefinition({ flatName: name, isCustom, tool }: NamedTool) {
  const { description, format } = tool
  const about = asNonEmpty(description)
  if (!isCustom) return functionDefinition(name, { ...tool, description: about })
  return customDefinition(name, about ?? '', asFields(format)['definition'])
}

function toSettings(
  body: ResponsesBody,
  tools: readonly NamedTool[],
  ignored: IgnoredNames,
): ReadSettings {
  const toolChoice = toToolChoice(body, tools)
  if (body.tool_choice != null && toolChoice === undefined) ignored.add('tool_choice')
  refuseFormat('text.format', body.text?.format)
  const { settings, sources } = readSettings(body, OPENAI_SPELLINGS, PARAMETERS, ignored)
  const { parallelToolCalls, ...rest } = withSummary(settings)
  const withTools = {
    tools: allowedTools(body.tool_choice, tools).map(toDefinition),
    ...(parallelToolCalls !== undefined && { parallelToolCalls }),
  }
  return {
    settings: { ...rest, ...omitNullish({ toolChoice }), ...(tools.length > 0 && withTools) },
    sources,
  }
}

/** OpenAI summarizes only on request, and refuses that to organizations that it has not verified. */
function withSummary(settings: SubmissionSettings): SubmissionSettings {
  const { reasoningEffort, reasoningSummary = 'none' } = settings
  return reasoningEffort === undefined ? settings : { ...settings, reasoningSummary }
}

/** Undefined for a choice of hosted tools, which are dropped. Throws for another tool that the request does not have. */
function toToolChoice(
  { tool_choice: choice, tools: given }: ResponsesBody,
  tools: readonly NamedTool[],
): SubmissionSettings['toolChoice'] | undefined {
  const mode = isRecord(choice) && choice.type === 'allowed_tools' ? choice['mode'] : choice
  if (mode === 'auto' || mode === 'none') return mode
  if (mode === 'required') {
    const hasHosted = tools.length === 0 && given != null && given.length > 0
    return hasHosted ? undefined : mode
  }
  if (!isRecord(choice) || (choice.type !== 'function' && choice.type !== 'custom'))
    return undefined
  const named = new ToolIndex(tools).find(choice)
  if (named !== undefined) return { name: named.flatName }
  const name = typeName(choice['name'])
  throw new ParameterError('tool_choice', `forces the tool ${name}, which is not in tools`)
}

const REPEATED = nameList(
  'background frequency_penalty include instructions max_output_tokens metadata model',
  'parallel_tool_calls presence_penalty previous_response_id prompt_cache_key safety_identifier',
  'service_tier store temperature text tool_choice top_p',
)

function toParameters(body: ResponsesBody, tools: readonly unknown[]): Record<string, unknown> {
  const repeated = REPEATED.map((name) => [name, body[name]] as const)
  const { effort, generate_summary: legacy, summary = legacy } = body.reasoning ?? {}
  const reasoning = { effort: toEffort(effort) ?? null, summary: toSummary(summary) ?? null }
  const functions = tools.filter((tool) => !isHosted(tool))
  return omitNullish({
    ...Object.fromEntries(repeated),
    reasoning: body.reasoning ? reasoning : undefined,
    tools: functions.length > 0 ? functions : undefined,
  })
}

/** Known parameters apart from hints. */
const PARAMETERS: readonly string[] = [
  ...REPEATED.filter((name) => name !== 'text'),
  ...Object.keys(REFUSED),
  ...nameList('conversation input prompt stream tools'),
]
