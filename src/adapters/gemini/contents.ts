/** A thread as Gemini wants it: contents of user and model, each of them parts. */
import { TurnstreamError } from '../../protocol/errors.ts'
import { isRecord, parseJsonObject } from '../../protocol/json.ts'
import type { Attachment, OutputItem } from '../../protocol/output-item.ts'
import { type AgentItem, type Answer, type Step, stepsOf } from '../thread-steps.ts'
import { type Fields, vendorFieldsOf } from './metadata.ts'

export interface Contents {
  system: Fields[]
  contents: { role: 'user' | 'model'; parts: Fields[] }[]
}

export function contentsOf(input: readonly OutputItem[]): Contents {
  const steps = stepsOf(input, {
    isOwn: (item) => vendorFieldsOf(item.provider_metadata) !== undefined,
    responseOf: (item) => {
      const id = vendorFieldsOf(item.provider_metadata)?.['responseId']
      return typeof id === 'string' ? id : undefined
    },
  })
  const system = steps.flatMap((step) => (step.from === 'system' ? [{ text: step.text }] : []))
  const contents: Contents['contents'] = []
  for (const step of steps) {
    const parts = partsOf(step)
    if (parts.length === 0) continue
    const role = step.from === 'agent' ? 'model' : 'user'
    const last = contents.at(-1)
    if (last?.role === role) last.parts.push(...parts)
    else contents.push({ role, parts })
  }
  return { system, contents }
}

function partsOf(step: Step): Fields[] {
  switch (step.from) {
    case 'system':
      return []
    case 'user':
      return userParts(step)
    case 'tools':
      return step.answers.map(functionResponse)
    case 'agent':
      return step.items.flatMap(agentParts)
  }
}

function userParts({ text, images }: Extract<Step, { text: string }>): Fields[] {
  const pictures = images.map(inlineData)
  return text === '' && pictures.length > 0 ? pictures : [{ text }, ...pictures]
}

function inlineData({ media_type, data }: Attachment): Fields {
  if (media_type === 'image/gif') {
    throw new TurnstreamError('OPTION_INVALID', 'input: Gemini takes no GIF')
  }
  return { inlineData: { mimeType: media_type, data } }
}

function agentParts(item: AgentItem): Fields[] {
  const own = vendorFieldsOf(item.provider_metadata)
  const { thoughtSignature, attachments, executableCode, codeExecutionResult } = own ?? {}
  const signed = typeof thoughtSignature === 'string' ? { thoughtSignature } : {}
  switch (item.type) {
    case 'message': {
      const kept = Array.isArray(attachments) ? attachments.filter(isRecord) : []
      const isEmpty = item.content === '' && Object.keys(signed).length === 0
      return isEmpty ? kept : [{ text: item.content, ...signed }, ...kept]
    }
    // What others thought is none of its business.
    case 'reasoning':
      return own === undefined ? [] : [{ text: item.content, thought: true, ...signed }]
    case 'function_call':
      if (isRecord(executableCode)) return [{ executableCode, ...signed }]
      return [{ functionCall: functionCall(item, own), ...signed }]
    case 'function_call_output':
      return isRecord(codeExecutionResult) ? [{ codeExecutionResult, ...signed }] : []
  }
}

function functionCall(call: Answer['call'], own: Fields | undefined): Fields {
  return { ...idOf(own), name: call.name, args: argsOf(call.arguments) }
}

/** Only an id that the vendor gave; ours would be new to it. */
function idOf(own: Fields | undefined): Fields {
  return typeof own?.['id'] === 'string' ? { id: own['id'] } : {}
}

/** The vendor takes objects only; tools of other vendors are called with plain text at times. */
function argsOf(json: string): Fields {
  return parseJsonObject(json) ?? (json.trim() === '' ? {} : { input: json })
}

function functionResponse({ call, output, success }: Answer): Fields {
  const response = success ? (parseJsonObject(output) ?? { output }) : { error: output }
  const id = idOf(vendorFieldsOf(call.provider_metadata))
  return { functionResponse: { ...id, name: call.name, response } }
}
