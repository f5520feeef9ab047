import { isRecord } from '@turnstream/core/internal/protocol/json'
import { parseUrl } from '@turnstream/core/internal/protocol/url'
import * as z from 'zod'
import { MCP_NAME, TOOL_NAME } from '../../tools/limits.ts'
import { findSchemaFault } from '../../turns/tool-schema.ts'
import { UsageError } from '../command.ts'
import { countSchema, decodePart, flagSchema } from './settings.ts'

const text = z.string('must be a non-empty string').trim().min(1, 'must be a non-empty string')
const address = z.string('must be a URL').refine((value) => {
  const { protocol = '', username, password } = parseUrl(value) ?? {}
  return /^https?:$/.test(protocol) && username === '' && password === ''
}, 'must be an http:// or https:// URL without credentials')

const HEADER_NAME = /^[!#$%&'*+.^_`|~\w-]+$/
const SECRET_HEADER = /authorization|cookie|key|token|secret/i

/** Values of headers and variables may name variables of our environment: `Bearer ${WEATHER_TOKEN}`. */
export const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g

const headers = z
  .record(z.string(), z.string('must be a non-empty string'))
  .superRefine((given, context) => {
    for (const [name, value] of Object.entries(given)) {
      const issue = (message: string) => context.addIssue({ code: 'custom', path: [name], message })
      if (!HEADER_NAME.test(name)) issue('is not a valid header name')
      else if (SECRET_HEADER.test(name) && value.search(VARIABLE) === -1) {
        issue('must come from an environment variable, such as "Bearer ${MY_TOKEN}"')
      }
    }
  })

const limits = {
  timeoutMs: countSchema.exactOptional(),
  maxOutputBytes: countSchema.exactOptional(),
  maxParallelCalls: countSchema.exactOptional(),
}

const parameters = z
  .record(z.string(), z.unknown(), 'must be a JSON Schema object')
  .superRefine((schema, context) => {
    const fault = findSchemaFault(schema)
    if (fault !== undefined) context.addIssue(fault)
  })

const needsApproval = flagSchema.exactOptional()

export const httpTool = z.strictObject({
  name: z
    .string('is required')
    .regex(TOOL_NAME, 'must have 1 to 64 letters, digits, dashes and underscores'),
  description: text.exactOptional(),
  parameters: parameters.exactOptional(),
  http: z.strictObject({ url: address, headers: headers.exactOptional(), ...limits }),
  needsApproval,
})

const moduleTools = z.strictObject({ module: text, needsApproval })

const serverName = z
  .string('is required: the prefix of its tools')
  .regex(
    MCP_NAME,
    'must have 1 to 32 letters and digits, separated by single dashes or underscores',
  )

export const mcpProcess = z.strictObject({
  command: text,
  args: z
    .array(z.string('must be a non-empty string'), 'must be a list of strings')
    .exactOptional(),
  env: z.record(z.string(), z.string('must be a non-empty string')).exactOptional(),
  ...limits,
})
export const mcpEndpoint = z.strictObject({
  url: address,
  headers: headers.exactOptional(),
  ...limits,
})

const processTools = z.strictObject({ name: serverName, mcp: mcpProcess, needsApproval })
const endpointTools = z.strictObject({ name: serverName, mcp: mcpEndpoint, needsApproval })

export type HttpToolSetting = z.infer<typeof httpTool>
export type McpSetting = z.infer<typeof processTools> | z.infer<typeof endpointTools>
export type ToolSetting = HttpToolSetting | z.infer<typeof moduleTools> | McpSetting

export function toolVariables(settings: readonly ToolSetting[]): string[] {
  const values = settings.flatMap((setting) => {
    if ('http' in setting) return Object.values(setting.http.headers ?? {})
    if (!('mcp' in setting)) return []
    const { mcp } = setting
    return Object.values(('url' in mcp ? mcp.headers : mcp.env) ?? {})
  })
  const names = values.flatMap((value) =>
    Array.from(value.matchAll(VARIABLE), ([, name = '']) => name),
  )
  return [...new Set(names)]
}

export function decodeToolSettings(value: unknown, file: string): readonly ToolSetting[] {
  if (!Array.isArray(value)) throw new UsageError(`tools of ${file} must be a list`)
  const settings = value.map((each: unknown, index) => decodeTool(each, index, file))
  const names = settings.flatMap((each) => ('name' in each ? each.name : []))
  const twice = names.find((name, index) => names.indexOf(name) < index)
  if (twice !== undefined) throw new UsageError(`tools of ${file} has ${twice} twice`)
  return settings
}

function decodeTool(value: unknown, index: number, file: string): ToolSetting {
  const schema = schemaFor(value)
  if (schema === undefined) {
    throw new UsageError(`tools.${index} of ${file}: must have one of http, module and mcp`)
  }
  return decodePart(schema, value, { path: `tools.${index}`, file })
}

function schemaFor(value: unknown) {
  if (!isRecord(value)) return undefined
  const [kind, ...others] = ['http', 'module', 'mcp'].filter((each) => value[each] !== undefined)
  if (kind === undefined || others.length > 0) return undefined
  if (kind !== 'mcp') return kind === 'http' ? httpTool : moduleTools
  return isRecord(value['mcp']) && 'url' in value['mcp'] ? endpointTools : processTools
}

/** Where calls of an entry are sent; empty for one that stays on this machine. */
export function toolUrl(setting: ToolSetting): string {
  if ('http' in setting) return setting.http.url
  return 'mcp' in setting && 'url' in setting.mcp ? setting.mcp.url : ''
}
