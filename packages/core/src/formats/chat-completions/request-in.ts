import { customDefinition } from '../custom-tools.ts'
import { asFields, asString, nameSet } from '../fields.ts'
import type { ToolDefinition } from '../provider-request.ts'
import { IgnoredNames, omitNullish, typeName } from '../request-in.ts'
import { OPENAI_SPELLINGS, readSettings, refuseFormat } from '../request-settings.ts'
import { allowedTools, functionDefinition } from '../request-tools.ts'
import type { DecodedRequest, SubmissionSettings } from '../submission.ts'
import { decodeMessages } from './request-messages.ts'
import {
  CHAT_PARAMETERS,
  type ChatBody,
  type ChatCustomTool,
  type ChatFunction,
} from './schemas.ts'

export function decodeChatRequest(body: ChatBody): DecodedRequest {
  const ignored = new IgnoredNames()
  const functions = readFunctions(body, ignored)
  const hasNoTools = (functions?.length ?? 1) === 0 && body.tools != null
  const choice = hasNoTools ? undefined : toToolChoice(body)
  if (choice === undefined && body.tool_choice != null) ignored.add('tool_choice')
  const tools = functions && allowedTools(body.tool_choice, functions)
  const { hasNames, ...thread } = decodeMessages(body.messages, ignored)
  refuseFormat('response_format', body.response_format)
  const { settings, sources } = readSettings(body, OPENAI_SPELLINGS, PARAMETERS, ignored)
  return {
    submission: {
      model: body.model,
      settings: {
        ...settings,
        ...omitNullish({ tools, toolChoice: choice }),
        // The older form holds one call.
        ...(isLegacy(body) && { parallelToolCalls: false }),
      },
      // A client that brings tools has its own loop: it gets exactly these.
      ...(functions?.length && { serverTools: false }),
      ...thread,
      settingSources: {
        ...sources,
        strict: ['tools[].function.strict'],
        longCallIds: ['messages[].tool_calls[].id'],
        ...(hasNames && { name: ['messages[].name'] }),
      },
    },
    ignored: ignored.list,
  }
}

const PARAMETERS: readonly string[] = [
  ...CHAT_PARAMETERS.filter((name) => name !== 'stream_options'),
  'stream_options.include_usage',
]

/** Whether the answer has a `function_call`, as in requests before `tools`. */
export function isLegacy({ functions, tools }: ChatBody): boolean {
  return (functions?.length ?? 0) > 0 && tools == null
}

/** Parameters stored with the thread; undefined if there are none. */
export function threadMetadata(body: ChatBody): Record<string, unknown> | undefined {
  const { user, safety_identifier, prompt_cache_key, store, metadata } = body
  const given = omitNullish({ user, safety_identifier, prompt_cache_key, store, metadata })
  return Object.keys(given).length === 0 ? undefined : given
}

export function customToolNames({ tools }: ChatBody): string[] {
  return (tools ?? []).filter(isCustomTool).map(({ custom }) => custom.name)
}

type Tool = NonNullable<ChatBody['tools']>[number]

function isFunctionTool(tool: Tool): tool is { type: 'function'; function: ChatFunction } {
  return tool['type'] === 'function'
}

function isCustomTool(tool: Tool): tool is { type: 'custom'; custom: ChatCustomTool } {
  return tool['type'] === 'custom'
}

const TOOL = nameSet('type function custom')
const CUSTOM = nameSet('name description format')
const FUNCTION = nameSet('name description parameters strict')

/** The functions of a request, also for custom tools. Other tools are dropped. */
function readFunctions(body: ChatBody, ignored: IgnoredNames): SubmissionSettings['tools'] {
  const { tools, functions } = body
  if (tools == null && functions == null) return undefined
  const definitions: ToolDefinition[] = []
  const addFunction = (given: ChatFunction, path: string): void => {
    ignored.addUnknown(given, FUNCTION, path)
    definitions.push(functionDefinition(given.name, given))
  }
  for (const [index, tool] of (tools ?? []).entries()) {
    if (isFunctionTool(tool)) addFunction(tool.function, 'tools[].function')
    else if (isCustomTool(tool)) {
      const { name, description, format } = tool.custom
      ignored.addUnknown(tool.custom, CUSTOM, 'tools[].custom')
      definitions.push(customDefinition(name, description ?? '', format?.grammar?.definition))
    } else {
      ignored.add(`tools[${index}] (${typeName(tool['type'])})`)
      continue
    }
    ignored.addUnknown(tool, TOOL, 'tools[]')
  }
  for (const each of functions ?? []) addFunction(each, 'functions[]')
  return definitions
}

function toToolChoice({ tool_choice, function_call }: ChatBody): SubmissionSettings['toolChoice'] {
  const choice = tool_choice ?? function_call ?? undefined
  if (choice === undefined || typeof choice === 'string') return choice
  const { type, allowed_tools: allowed, name: own } = choice
  const named = type === 'function' || type === 'custom' ? asFields(choice[type]) : {}
  const name = asString(own) ?? asString(named['name'])
  if (name !== undefined) return { name }
  const mode = type === 'allowed_tools' ? asFields(allowed)['mode'] : undefined
  return mode === 'auto' || mode === 'required' ? mode : undefined
}
