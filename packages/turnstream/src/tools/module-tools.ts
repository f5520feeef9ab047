import { optionInvalid } from '@turnstream/core/internal/protocol/errors'
import { isRecord } from '@turnstream/core/internal/protocol/json'
import { findSchemaFault } from '../turns/tool-schema.ts'
import type { Tool } from '../turns/tools.ts'
import { TOOL_NAME } from './limits.ts'

/** Imports a module whose default export is a list of tools. OPTION_INVALID, or what the module throws. */
export async function importTools(url: string): Promise<readonly Tool[]> {
  const module = (await import(url)) as { default?: unknown }
  const { default: tools } = module
  if (!Array.isArray(tools)) throw optionInvalid('the default export must be a list of tools')
  for (const [index, tool] of tools.entries()) {
    const fault = toolFault(tool)
    if (fault !== undefined) throw optionInvalid(`tool ${index + 1} of the list: ${fault}`)
  }
  return tools as readonly Tool[]
}

function toolFault(tool: unknown): string | undefined {
  if (!isRecord(tool)) return 'must be an object'
  const { name, description, parameters, timeoutMs, needsApproval, execute } = tool
  if (typeof name !== 'string' || !TOOL_NAME.test(name)) {
    return 'name must have 1 to 64 letters, digits, dashes and underscores'
  }
  if (typeof execute !== 'function') return `${name} has no function execute`
  if (description !== undefined && typeof description !== 'string') {
    return `description of ${name} must be a string`
  }
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs >= 1)) {
    return `timeoutMs of ${name} must be a number from 1`
  }
  if (!['undefined', 'boolean', 'function'].includes(typeof needsApproval)) {
    return `needsApproval of ${name} must be a boolean or a function`
  }
  const fault = findSchemaFault(parameters)
  return fault === undefined ? undefined : `parameters of ${name}: ${fault}`
}
