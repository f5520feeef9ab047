import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Clock } from '@turnstream/core/internal/async/clock'
import { withoutUndefined } from '@turnstream/core/internal/protocol/json'
import { createProviderFetch } from '../../server/provider-fetch.ts'
import { createHttpTool, type HttpToolOptions } from '../../tools/http-tool.ts'
import { hideValues } from '../../tools/limits.ts'
import { connectMcpTools, type McpTools, type McpToolsOptions } from '../../tools/mcp-tools.ts'
import { importTools } from '../../tools/module-tools.ts'
import type { Tool } from '../../turns/tools.ts'
import { UsageError } from '../command.ts'
import { messageOf } from '../text.ts'
import type { Configuration } from './configuration.ts'
import type { Logger } from './logger.ts'
import { type Environment, readSecret } from './secrets.ts'
import { StartError } from './store.ts'
import {
  type HttpToolSetting,
  type McpSetting,
  type ToolSetting,
  VARIABLE,
} from './tool-settings.ts'

type ToolConfiguration = Pick<Configuration, 'env' | 'toolSettings' | 'folder'>

/** An entry of `tools` with the values of its variables. */
export type ToolPlan =
  | { readonly kind: 'http'; readonly options: HttpToolOptions }
  | { readonly kind: 'module'; readonly file: string; readonly needsApproval?: boolean }
  | { readonly kind: 'mcp'; readonly options: McpToolsOptions }

export function toolPlans(configuration: ToolConfiguration): ToolPlan[] {
  return configuration.toolSettings.map((setting, index) =>
    toolPlan(setting, `tools.${index}`, configuration),
  )
}

function toolPlan(
  setting: ToolSetting,
  path: string,
  { env, folder }: ToolConfiguration,
): ToolPlan {
  if ('http' in setting) return { kind: 'http', options: httpOptions(setting, path, env) }
  if ('mcp' in setting) return { kind: 'mcp', options: mcpOptions(setting, path, env, folder) }
  const { module, needsApproval } = setting
  return { kind: 'module', file: resolve(folder, module), ...withoutUndefined({ needsApproval }) }
}

function httpOptions({ http, ...tool }: HttpToolSetting, path: string, env: Environment) {
  const { headers, ...rest } = http
  const values = headers && expandAll(headers, `${path}.http.headers`, env)
  const parameters = tool.parameters ?? { type: 'object', properties: {} }
  return { ...tool, ...rest, parameters, ...(values && { headers: values }) }
}

function mcpOptions(setting: McpSetting, path: string, env: Environment, folder: string) {
  const { name, mcp, needsApproval } = setting
  const { timeoutMs, maxOutputBytes, maxParallelCalls, ...server } = mcp
  const limits = withoutUndefined({ timeoutMs, maxOutputBytes, maxParallelCalls, needsApproval })
  const common = { name, packageFolder: folder, ...limits }
  if ('url' in server) {
    const headers = server.headers && expandAll(server.headers, `${path}.mcp.headers`, env)
    return { ...common, server: { url: server.url, ...(headers && { headers }) } }
  }
  const variables = expandAll(server.env ?? {}, `${path}.mcp.env`, env)
  return { ...common, server: { ...server, env: variables, cwd: folder } }
}

function expandAll(values: Readonly<Record<string, string>>, path: string, env: Environment) {
  const expanded = Object.entries(values).map(([key, value]) => [
    key,
    value.replaceAll(VARIABLE, (_match, name: string) => {
      const found = readSecret(env, name)
      if (found !== undefined) return found
      throw new UsageError(`${path}.${key}: the variable ${name} is not set`)
    }),
  ])
  return Object.fromEntries(expanded) as Record<string, string>
}

export type OpenTools = Awaited<ReturnType<typeof openTools>>

export interface OpenToolsDeps {
  readonly logger: Pick<Logger, 'info' | 'warn'>
  readonly clock: Clock
  /** Values that no output of a tool may contain. */
  readonly secrets: readonly string[]
  /** Whether the log may repeat what users said. */
  readonly logContent: boolean
}

/** Loads modules and connects to MCP servers. StartError; servers that are down are not an error. */
export async function openTools(plans: readonly ToolPlan[], deps: OpenToolsDeps) {
  const opened = await Promise.allSettled(plans.map((plan) => openPlan(plan, deps)))
  const entries = opened.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
  const close = async (): Promise<void> => {
    await Promise.all(entries.flatMap((entry) => ('close' in entry ? [entry.close()] : [])))
  }
  const failed = opened.find((each) => each.status === 'rejected')
  if (failed === undefined) return { entries, close }
  await close()
  throw new StartError(messageOf(failed.reason), { cause: failed.reason })
}

async function openPlan(plan: ToolPlan, deps: OpenToolsDeps): Promise<(Tool | McpTools)[]> {
  const { logger, clock, secrets, logContent } = deps
  switch (plan.kind) {
    case 'http':
      return [createHttpTool({ ...plan.options, secrets, fetch: createProviderFetch() })]
    case 'module':
      return openModule(plan, secrets)
    case 'mcp': {
      const about = `MCP server ${plan.options.name}`
      const tools = await connectMcpTools({
        ...plan.options,
        secrets,
        clock,
        onLog: (message) => logger.info(`${about}: ${message}`),
        onStderr: (line) => logContent && logger.info(`${about} wrote: ${line}`),
      })
      return [tools]
    }
  }
}

async function openModule(
  { file, needsApproval }: Extract<ToolPlan, { kind: 'module' }>,
  secrets: readonly string[],
): Promise<Tool[]> {
  const hide = hideValues(secrets)
  const tools = await importTools(pathToFileURL(file).href).catch((error: unknown) => {
    const message = `the tools of ${file} cannot be loaded: ${messageOf(error)}`
    throw new StartError(message, { cause: error })
  })
  const approval = withoutUndefined({ needsApproval })
  return tools.map((tool) => ({ ...withoutSecrets(tool, hide), ...approval }))
}

function withoutSecrets(tool: Tool, hide: (text: string) => string): Tool {
  const { name, description, parameters, strict, timeoutMs, needsApproval } = tool
  return {
    name,
    parameters,
    ...withoutUndefined({ description, strict, timeoutMs, needsApproval }),
    async execute(args, context) {
      try {
        const result = await tool.execute(args, context)
        return hide(typeof result === 'string' ? result : (JSON.stringify(result) ?? ''))
      } catch (error) {
        throw new Error(hide(messageOf(error)), { cause: error })
      }
    },
  }
}
