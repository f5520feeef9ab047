import { pathToFileURL } from 'node:url'
import { type Check, checkNamed } from '@turnstream/conformance/internal/endpoint/check'
import type { Clock } from '@turnstream/core/internal/async/clock'
import { connectMcpTools, type McpToolsOptions } from '../../tools/mcp-tools.ts'
import { importTools } from '../../tools/module-tools.ts'
import { usageFault } from '../command.ts'
import type { Configuration } from '../serve/configuration.ts'
import { type ToolPlan, toolPlans } from '../serve/tools.ts'
import { messageOf } from '../text.ts'

const { ok, warn, fail } = checkNamed('tools')

/** Whether the tools of the configuration can be used. HTTP endpoints are not called: a call may change something. */
export async function toolChecks(configuration: Configuration, clock: Clock): Promise<Check[]> {
  const fault = usageFault(() => toolPlans(configuration))
  const fix = 'Set it, or name a file with the same variable and _FILE'
  if (fault !== undefined) return [fail(fault, fix)]
  const plans = toolPlans(configuration)
  if (plans.length === 0) return [ok('none configured')]
  return Promise.all(plans.map((plan) => checkPlan(plan, clock)))
}

async function checkPlan(plan: ToolPlan, clock: Clock): Promise<Check> {
  switch (plan.kind) {
    case 'http':
      return ok(`${plan.options.name}: ${new URL(plan.options.url).origin}, not called`)
    case 'module':
      return checkModule(plan.file)
    case 'mcp':
      return checkServer({ ...plan.options, clock })
  }
}

async function checkModule(file: string): Promise<Check> {
  try {
    const tools = await importTools(pathToFileURL(file).href)
    return ok(`${file}: ${tools.map(({ name }) => name).join(', ') || 'an empty list'}`)
  } catch (error) {
    const fix = 'Correct the module: the server does not start with it'
    return fail(`${file}: ${messageOf(error)}`, fix)
  }
}

async function checkServer(options: McpToolsOptions): Promise<Check> {
  const { name, server } = options
  const about = `MCP server ${name}`
  const logs: string[] = []
  try {
    const tools = await connectMcpTools({ ...options, onLog: (message) => logs.push(message) })
    const { isConnected } = tools
    const count = tools.tools.length
    await tools.close()
    const [first = 'no list of tools within 10 s'] = logs
    if (isConnected) return ok(`${about}: ${count} tools`)
    const fix =
      'url' in server
        ? `Start it, or correct its url: curl -v ${new URL(server.url).origin}`
        : `See what it prints when you start it: ${server.command}`
    // The server starts without it, and tries again.
    return warn(`${about}: ${first.replace(/; next attempt in \d+ ms$/, '')}`, fix)
  } catch (error) {
    const fix = 'Install it where the server finds it: npm install @modelcontextprotocol/client'
    return fail(`${about}: ${messageOf(error)}`, fix)
  }
}
