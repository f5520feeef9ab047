import type {
  ProviderRequest,
  ToolDefinition,
} from '@turnstream/core/internal/formats/provider-request'
import type { Recording } from '@turnstream/core/internal/formats/v2/recording'
import { isRecord, parseJsonObject } from '@turnstream/core/internal/protocol/json'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import { checkQuickly } from '../../turns/tool-arguments.ts'
import type { Tool } from '../../turns/tools.ts'
import { Script } from './script.ts'

/** Models that call a tool they are offered, and answer with what it returned. They need no key. */
export const TOOL_MODELS = {
  /** Prefers tools of the request, which follow the server's. */
  'client-tools': (request: ProviderRequest) =>
    callTool('client-tools', request, (request.tools ?? []).toReversed()),
  'server-tools': (request: ProviderRequest) =>
    callTool('server-tools', request, request.tools ?? []),
  approval: sendPostcard,
} as const satisfies Record<string, (request: ProviderRequest) => Recording>

const MAX_QUOTED_CHARS = 2000

const NO_TOOLS = `There is no tool that this model could call. It calls the tool that your question names, with the JSON \
object after the name as arguments, or else the first tool whose arguments it can make up. Tools come with the request, \
or from \`tools\` in the configuration of the server.`

function callTool(model: string, request: ProviderRequest, tools: readonly ToolDefinition[]) {
  return answerOrCall(model, request, (script, prompt, callId) => {
    const chosen = request.toolChoice === 'none' ? undefined : chooseCall(prompt, tools)
    if (chosen === undefined) return script.say(300, NO_TOOLS).end()
    const { name, args } = chosen
    script.think(300, `The question can be answered with ${name}.`)
    return script.request(200, name, args, callId).end('tool_calls')
  })
}

/** Answers with the results that the thread ends with. Without any, calls a tool. */
function answerOrCall(
  model: string,
  { input }: ProviderRequest,
  call: (script: Script, prompt: string, callId: string) => Recording,
): Recording {
  const script = new Script(model)
  const results = lastResults(input)
  if (results.length > 0) return script.say(300, describeResults(results)).end()
  const count = input.filter(({ type }) => type === 'function_call').length
  const prompt = input.findLast(isPrompt)?.content ?? ''
  return call(script, prompt, `scripted-call-${count + 1}`)
}

export const POSTCARD_TOOL: Tool = {
  name: 'send_postcard',
  description: 'Sends a postcard. It only pretends to.',
  parameters: {
    type: 'object',
    required: ['to', 'text'],
    properties: { to: { type: 'string' }, text: { type: 'string' } },
  },
  needsApproval: true,
  execute: ({ to }) => `The postcard to ${String(to)} was sent (not really).`,
}

function sendPostcard(request: ProviderRequest): Recording {
  return answerOrCall('approval', request, (script, prompt, callId) =>
    script
      .say(300, 'I send a postcard if you approve.')
      .request(200, POSTCARD_TOOL.name, { to: 'Lisbon', text: prompt.slice(0, 200) }, callId)
      .end('tool_calls'),
  )
}

type Item<Type extends OutputItem['type']> = Extract<OutputItem, { type: Type }>

function isPrompt(item: OutputItem): item is Item<'message'> {
  return item.type === 'message' && item.origin === 'user'
}

function lastResults(input: readonly OutputItem[]): Item<'function_call_output'>[] {
  const last = input.findLastIndex(({ type }) => type !== 'function_call_output')
  return input.slice(last + 1).filter((item) => item.type === 'function_call_output')
}

function describeResults(results: readonly Item<'function_call_output'>[]): string {
  const lines = results.map(
    ({ output, success }) =>
      `The tool ${success ? 'answered' : 'failed'}: ${output.slice(0, MAX_QUOTED_CHARS)}`,
  )
  return lines.join('\n\n')
}

/** The tool that the prompt names with arguments, or the first whose arguments can be made up. */
export function chooseCall(prompt: string, tools: readonly ToolDefinition[]) {
  const words = prompt.split(/[^\w-]+/)
  const named = tools.find(({ name }) => words.includes(name))
  if (named !== undefined) {
    const { name } = named
    const after = prompt.slice(prompt.indexOf(name) + name.length)
    const given = parseJsonObject(after.slice(after.indexOf('{'), after.lastIndexOf('}') + 1))
    return { name, args: given ?? plausibleArguments(named, prompt) ?? {} }
  }
  for (const tool of tools) {
    const args = plausibleArguments(tool, prompt)
    if (args !== undefined) return { name: tool.name, args }
  }
  return undefined
}

type JsonSchema = Readonly<Record<string, unknown>>

/** Returns undefined if what can be made up does not match the schema, as far as that is cheap to check. */
function plausibleArguments({ parameters }: ToolDefinition, prompt: string) {
  try {
    const context = { root: parameters, prompt, budget: { values: MAX_VALUES } }
    const args = plausibleValue({ type: 'object', ...parameters }, '', context)
    if (!isRecord(args)) return undefined
    const fault = checkQuickly(parameters, args, JSON.stringify(args))?.fault
    return fault === undefined ? args : undefined
  } catch {
    return undefined // the schema cannot be used
  }
}

interface Context {
  readonly root: JsonSchema
  readonly prompt: string
  /** How many values may still be made up. A schema that names itself twice would double them at each level. */
  readonly budget: { values: number }
  /** Levels above. A schema may contain itself. */
  readonly depth?: number
}

const MAX_VALUES = 1000
const MAX_DEPTH = 10
const FORMATS: Readonly<Record<string, string>> = {
  date: '2026-01-31',
  'date-time': '2026-01-31T12:00:00Z',
  email: 'someone@example.com',
  time: '12:00:00Z',
  uri: 'https://example.com/',
  url: 'https://example.com/',
  uuid: '00000000-0000-4000-8000-000000000000',
}
const BY_NAME: readonly [RegExp, string][] = [
  [/city|location|place|town/i, 'Lisbon'],
  [/country/i, 'Portugal'],
  [/time_?zone/i, 'Europe/Lisbon'],
  [/url|uri/i, 'https://example.com/'],
  [/path|file|dir/i, '.'],
]

function plausibleValue(schema: unknown, name: string, context: Context): unknown {
  const { depth = 0 } = context
  context.budget.values -= 1
  if (context.budget.values < 0) throw new Error('the schema asks for too many values')
  if (depth > MAX_DEPTH) throw new Error('the schema is too deep')
  if (schema === false) throw new Error('the schema allows no value')
  if (!isRecord(schema)) return 'example'
  const deeper = { ...context, depth: depth + 1 }
  for (const key of ['const', 'default']) if (schema[key] !== undefined) return schema[key]
  for (const key of ['enum', 'examples', 'anyOf', 'oneOf', 'allOf']) {
    const [first] = Array.isArray(schema[key]) ? (schema[key] as unknown[]) : []
    if (first === undefined) continue
    return key.endsWith('Of') ? plausibleValue(first, name, deeper) : first
  }
  if (typeof schema['$ref'] === 'string') {
    return plausibleValue(resolveRef(schema['$ref'], context.root), name, deeper)
  }
  const { type } = schema
  switch (Array.isArray(type) ? type[0] : type) {
    case 'object':
      return plausibleObject(schema, deeper)
    case 'array': {
      const length = Math.min(Number(schema['minItems'] ?? 1), 10)
      return Array.from({ length }, () => plausibleValue(schema['items'] ?? {}, name, deeper))
    }
    case 'integer':
    case 'number':
      return plausibleNumber(schema)
    case 'boolean':
      return true
    case 'null':
      return null
    default:
      return plausibleText(schema, name, context.prompt)
  }
}

function plausibleObject(schema: JsonSchema, context: Context): Record<string, unknown> {
  const { required = [], properties = {} } = schema
  const names = Array.isArray(required) ? required.map(String) : []
  const known = isRecord(properties) ? properties : {}
  const valueOf = (name: string) => plausibleValue(known[name] ?? {}, name, context)
  return Object.fromEntries(names.map((name) => [name, valueOf(name)]))
}

function plausibleNumber({ minimum, maximum, exclusiveMinimum }: JsonSchema): number {
  if (typeof exclusiveMinimum === 'number') return Math.floor(exclusiveMinimum) + 1
  if (typeof minimum === 'number') return minimum
  return typeof maximum === 'number' ? Math.min(1, maximum) : 1
}

function plausibleText(schema: JsonSchema, name: string, prompt: string): string {
  const { format, minLength, maxLength, pattern } = schema
  if (pattern !== undefined) throw new Error('no text can be made up for a pattern')
  const byFormat = typeof format === 'string' ? FORMATS[format] : undefined
  const byName = BY_NAME.find(([pattern]) => pattern.test(name))?.[1]
  const text = byFormat ?? byName ?? (prompt === '' ? 'example' : prompt.slice(0, 200))
  const least = typeof minLength === 'number' ? Math.min(minLength, 1000) : 0
  return text.padEnd(least, '.').slice(0, typeof maxLength === 'number' ? maxLength : undefined)
}

function resolveRef(ref: string, root: JsonSchema): unknown {
  let found: unknown = root
  for (const part of ref.split('/').slice(1)) found = isRecord(found) ? found[part] : undefined
  return found
}
