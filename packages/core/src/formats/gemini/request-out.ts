import { isRecord, parseJsonObject } from '../../protocol/json.ts'
import type { Attachment, OutputItem } from '../../protocol/output-item.ts'
import { asList, type Fields, isEmpty } from '../fields.ts'
import { THOUGHT_SIGNATURE_REFUSED } from '../issuer.ts'
import { originalParts, vendorFields } from '../metadata.ts'
import type { ProviderRequest } from '../provider-request.ts'
import { writeSettings } from '../settings.ts'
import {
  type AgentItem,
  type Answer,
  invalidOption,
  joinUrl,
  type RequestOptions,
  type Step,
  stepsOf,
  toolChoiceOf,
  type Vendor,
  type VendorOptions,
  type VendorRequest,
} from '../vendor-request.ts'
import { NAMESPACE } from './decode.ts'
import { translateGemini } from './read.ts'
import { GEMINI_SETTINGS } from './settings.ts'

export const BASE_URL = 'https://generativelanguage.googleapis.com'

/** `POST /v1beta/models/{model}:streamGenerateContent`. Throws for options that the API does not support. */
export function buildGeminiRequest(
  request: ProviderRequest,
  { baseUrl = BASE_URL, apiKey, headers }: RequestOptions = {},
): VendorRequest {
  const { system, contents } = contentsOf(request.input)
  if (SIGNING_MODELS.test(request.model)) excuseUnsigned(contents)
  return {
    url: joinUrl(baseUrl, `/v1beta/${modelPath(request.model)}:streamGenerateContent?alt=sse`),
    headers: { ...(apiKey !== undefined && { 'x-goog-api-key': apiKey }), ...headers },
    body: {
      contents,
      ...(system.length > 0 && { systemInstruction: { parts: system } }),
      ...toolFields(request),
      ...writeSettings(GEMINI_SETTINGS, request),
    },
  }
}

/** Models that refuse the call of a tool without a signature, at least within the last turn. */
const SIGNING_MODELS = /gemini-(?:[3-9]|\d{2})/

/** The documented signature for a call that the vendor did not sign, such as one from another model. */
const UNSIGNED = 'skip_thought_signature_validator'

/** Only the first of parallel calls has a signature. */
function excuseUnsigned(contents: Contents['contents']): void {
  for (const { parts } of contents) {
    const call = parts.find((part) => 'functionCall' in part)
    if (call !== undefined) call['thoughtSignature'] ??= UNSIGNED
  }
}

export const GEMINI: Vendor<VendorOptions> = {
  id: 'gemini',
  settings: () => GEMINI_SETTINGS,
  buildRequest: buildGeminiRequest,
  createTranslation: translateGemini,
  refusal: THOUGHT_SIGNATURE_REFUSED,
  rebuildRequest(request, options) {
    const rebuilt = buildGeminiRequest(request, options)
    excuseUnsigned(rebuilt.body['contents'] as Contents['contents'])
    return rebuilt
  },
}

/** The path of a model, perhaps in a collection. A name must not lead elsewhere, even if a proxy decodes it twice. */
function modelPath(model: string): string {
  const path = model.includes('/') ? model : `models/${model}`
  const parts = path.split('/')
  if (parts.some((part) => /^\.{0,2}$/.test(part)) || NO_PART_OF_A_NAME.test(model)) {
    throw invalidOption('model', 'it is not a valid model name')
  }
  return parts.map(encodeURIComponent).join('/')
}

const NO_PART_OF_A_NAME = /[\\%?#\p{Cc}\p{Surrogate}]/u

function toolFields(request: ProviderRequest): Fields {
  const { tools = [] } = request
  const choice = toolChoiceOf(request)
  if (tools.length === 0) return {}
  const functionDeclarations = tools.map(({ name, description, parameters }) => {
    return { name, description, parametersJsonSchema: parameters }
  })
  return {
    tools: [{ functionDeclarations }],
    ...(choice !== undefined && { toolConfig: { functionCallingConfig: callingConfig(choice) } }),
  }
}

function callingConfig(choice: NonNullable<ProviderRequest['toolChoice']>): Fields {
  if (typeof choice === 'object') return { mode: 'ANY', allowedFunctionNames: [choice.name] }
  return { mode: ({ auto: 'AUTO', none: 'NONE', required: 'ANY' } as const)[choice] }
}

interface Contents {
  system: Fields[]
  contents: { role: 'user' | 'model'; parts: Fields[] }[]
}

/** Converts a thread to contents of user and model, each a list of parts. */
function contentsOf(input: readonly OutputItem[]): Contents {
  const steps = stepsOf(input, { namespace: NAMESPACE, responseField: 'responseId' })
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
    case 'user': {
      const parts = step.attachments.map(inlineData)
      return step.text === '' && parts.length > 0 ? parts : [{ text: step.text }, ...parts]
    }
    case 'tools':
      return step.answers.map(functionResponse)
    case 'agent':
      return step.items.flatMap(agentParts)
  }
}

function inlineData({ media_type, data }: Attachment): Fields {
  if (media_type === 'image/gif') throw invalidOption('input', 'Gemini does not accept GIF images')
  return { inlineData: { mimeType: media_type, data } }
}

function agentParts(item: AgentItem): Fields[] {
  const own = vendorFields(NAMESPACE, item)
  const { thoughtSignature, attachments, executableCode, codeExecutionResult } = own ?? {}
  const signed = typeof thoughtSignature === 'string' ? { thoughtSignature } : {}
  switch (item.type) {
    case 'message': {
      const originals = asList(attachments).filter(isRecord)
      return item.content === '' && isEmpty(signed)
        ? originals
        : [...textParts(item.content, own, signed), ...originals]
    }
    // Skips the reasoning of other vendors.
    case 'reasoning':
      if (own === undefined) return []
      return textParts(item.content, own, signed).map((part) => ({ ...part, thought: true }))
    case 'function_call':
      if (isRecord(executableCode)) return [{ executableCode, ...signed }]
      return [{ functionCall: { ...idOf(own), name: item.name, args: argsOf(item) }, ...signed }]
    case 'function_call_output':
      return isRecord(codeExecutionResult) ? [{ codeExecutionResult, ...signed }] : []
  }
}

function textParts(content: string, own: Fields | undefined, signed: Fields): Fields[] {
  return originalParts(content, own?.['parts']) ?? [{ text: content, ...signed }]
}

/** Only ids from the vendor: it does not know ours. */
function idOf(own: Fields | undefined): Fields {
  return typeof own?.['id'] === 'string' ? { id: own['id'] } : {}
}

/** The vendor takes only objects; other vendors may call tools with plain text. */
function argsOf({ arguments: json }: Answer['call']): Fields {
  return parseJsonObject(json) ?? (json.trim() === '' ? {} : { input: json })
}

function functionResponse({ call, output, success }: Answer): Fields {
  const response = success ? (parseJsonObject(output) ?? { output }) : { error: output }
  const id = idOf(vendorFields(NAMESPACE, call))
  return { functionResponse: { ...id, name: call.name, response } }
}
