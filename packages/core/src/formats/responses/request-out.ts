import { isExecutedByProvider } from '../../items/marks.ts'
import type { TurnstreamError } from '../../protocol/errors.ts'
import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import type { Attachment, OutputItem } from '../../protocol/output-item.ts'
import { customInput } from '../custom-tools.ts'
import { asList, type Fields } from '../fields.ts'
import { ENCRYPTED_CONTENT_REFUSED } from '../issuer.ts'
import { vendorFields } from '../metadata.ts'
import { traitsAfterEffort } from '../model-traits.ts'
import { OPENAI_MODELS } from '../openai-settings.ts'
import type { ProviderRequest } from '../provider-request.ts'
import { omitNullish } from '../request-in.ts'
import { type SentCallIds, sentId, shortCallIds } from '../sent-call-ids.ts'
import { writeSettings } from '../settings.ts'
import {
  bearer,
  dataUrl,
  filenameOf,
  type Item,
  invalidOption,
  joinUrl,
  NOT_RUN,
  type RequestOptions,
  toolChoiceOf,
  type Vendor,
  type VendorOptions,
  type VendorRequest,
  wasAbandoned,
} from '../vendor-request.ts'
import { isWireItem, type WireItem } from './decode.ts'
import { translateOpenaiResponses } from './read.ts'
import { openaiResponsesSettings } from './settings.ts'

export const BASE_URL = 'https://api.openai.com/v1'

/** Models without reasoning; the API refuses reasoning options for them. */
const WITHOUT_REASONING = /(?:^|\/)(?:chatgpt|gpt-[34])/

/** `POST /responses`. Throws for options that the API does not support. */
export function buildOpenaiResponsesRequest(
  request: ProviderRequest,
  { baseUrl = BASE_URL, apiKey, headers, models }: RequestOptions = {},
): VendorRequest {
  const { model } = request
  const callIds = callIdsOf(request.input)
  return {
    url: joinUrl(baseUrl, '/responses'),
    headers: { ...bearer(apiKey), ...headers },
    ...(callIds.size > 0 && { callIds }),
    body: {
      model,
      input: toInput(request.input, callIds),
      ...tools(request),
      ...writeSettings(openaiResponsesSettings(models), request),
      // We store the thread ourselves, and send it back complete.
      store: false,
      ...(!WITHOUT_REASONING.test(model) && { include: ['reasoning.encrypted_content'] }),
      stream: true,
    },
  }
}

/** Without `strict: false` the API would apply its own rules to every schema. */
function tools(request: ProviderRequest): Fields {
  const { tools = [] } = request
  const choice = toolChoiceOf(request)
  if (tools.length === 0) return {}
  return {
    tools: tools.map(({ name, description, parameters, strict = false }) => {
      return { type: 'function', name, description, parameters, strict }
    }),
    tool_choice: typeof choice === 'object' ? { type: 'function', name: choice.name } : choice,
  }
}

export const OPENAI: Vendor<VendorOptions> = {
  id: 'openai',
  models: OPENAI_MODELS,
  settings: (_options, models) => openaiResponsesSettings(models),
  learn: (request, error) => traitsAfterEffort(request.reasoningEffort, error),
  buildRequest: buildOpenaiResponsesRequest,
  createTranslation: translateOpenaiResponses,
  refusal: ENCRYPTED_CONTENT_REFUSED,
  withoutDefaults(request, error) {
    const isDefault =
      request.reasoningEffort !== undefined && request.reasoningSummary === undefined
    return isDefault && SUMMARY_REFUSED.test(error)
      ? { ...request, reasoningSummary: 'none' }
      : undefined
  },
}

/** "Your organization must be verified to generate reasoning summaries." */
const SUMMARY_REFUSED = /must be verified to generate reasoning summar/i

/** Converts a thread to a list of items, the vendor's own unchanged. */
export function toInput(items: readonly OutputItem[], ids = callIdsOf(items)): Fields[] {
  const history = new History(items, ids)
  for (const item of items) history.add(item)
  return history.input
}

function callIdsOf(items: readonly OutputItem[]): SentCallIds {
  return shortCallIds(items, (item) => vendorItemOf(item) !== undefined)
}

class History {
  readonly input: Fields[] = []
  readonly #ids: SentCallIds
  readonly #answered: ReadonlySet<string>
  /** The kind of each call in the request; undefined for one that is unknown here. */
  readonly #calls = new Map<string, string | undefined>()
  /** Held until the item it led to: the vendor refuses reasoning without one. */
  #reasoning: Fields[] = []
  /** The vendor refuses its own ids on items without their reasoning. */
  #hasReasoning = false

  constructor(items: readonly OutputItem[], ids: SentCallIds) {
    this.#ids = ids
    const outputs = items.filter((item) => item.type === 'function_call_output')
    this.#answered = new Set(outputs.map(({ call_id }) => call_id))
  }

  add(item: OutputItem): void {
    if (wasAbandoned(item)) return
    switch (item.type) {
      case 'message':
        return item.origin === 'agent' ? this.#addAnswer(item) : this.#addPrompt(item)
      case 'reasoning':
        return this.#addReasoning(item)
      case 'function_call':
        return this.#addCall(item)
      case 'function_call_output':
        return this.#addOutput(item)
      default:
        return // what went wrong here is not the model's to know
    }
  }

  #addPrompt(item: Item<'message'>): void {
    this.#forgetReasoning()
    this.input.push({ type: 'message', role: item.origin, content: promptParts(item) })
  }

  #addAnswer(item: Item<'message'>): void {
    const { phase, id }: Fields = vendorItemOf(item) ?? {}
    this.#addOwn({
      type: 'message',
      role: 'assistant',
      ...(typeof phase === 'string' && { phase }),
      ...this.#idOf(id),
      content: contentOf(item),
    })
  }

  /** Only encrypted reasoning is usable: the vendor stores none. */
  #addReasoning(item: Item<'reasoning'>): void {
    const own = vendorItemOf(item)
    if (own === undefined) return
    if (own.type !== 'reasoning') this.#addOwn(own)
    // The vendor sends nulls, but does not accept them.
    else if (typeof own['encrypted_content'] === 'string') this.#reasoning.push(omitNullish(own))
  }

  #addCall(item: Item<'function_call'>): void {
    const { call_id, provider_metadata } = item
    const own = vendorItemOf(item)
    const isVendors = isExecutedByProvider(provider_metadata)
    if (isVendors && own === undefined) {
      this.#calls.set(call_id, undefined)
      return
    }
    const kind = own?.type ?? 'function_call'
    this.#calls.set(call_id, kind)
    if (own === undefined || kind === 'function_call' || kind === 'custom_tool_call') {
      this.#addClientCall(item, kind)
    } else if (isVendors || this.#answered.has(call_id)) {
      // A vendor tool that waits for the client can only be omitted.
      this.#addOwn(own)
    }
  }

  #addClientCall(item: Item<'function_call'>, kind: string): void {
    const call_id = sentId(this.#ids, item.call_id)
    const { id, ...rest }: Fields = vendorItemOf(item) ?? {}
    const isCustom = kind === 'custom_tool_call'
    this.#addOwn({
      ...rest,
      ...this.#idOf(id),
      type: kind,
      call_id,
      name: item.name,
      ...(isCustom ? { input: customInput(item.arguments) } : { arguments: item.arguments }),
    })
    // An interrupted turn leaves such calls behind, and the vendor refuses them.
    if (!this.#answered.has(item.call_id)) {
      this.input.push(outputItem(kind, { call_id, output: NOT_RUN, success: false }))
    }
  }

  #addOutput(item: Item<'function_call_output'>): void {
    const { call_id, provider_metadata } = item
    const own = vendorItemOf(item)
    if (isExecutedByProvider(provider_metadata)) {
      // An output inside its call was already sent with it.
      if (own?.type.endsWith('_output')) this.input.push(own)
      return
    }
    if (!this.#calls.has(call_id)) {
      throw invalidOption('input', `the output of ${call_id} has no call`)
    }
    const kind = this.#calls.get(call_id)
    if (kind === undefined) return
    this.#forgetReasoning()
    this.input.push(outputItem(kind, { ...item, call_id: sentId(this.#ids, call_id) }))
  }

  #addOwn(fields: Fields): void {
    this.input.push(...this.#reasoning, fields)
    if (this.#reasoning.length > 0) this.#hasReasoning = true
    this.#reasoning = []
  }

  #idOf(id: unknown): Fields {
    const isPaired = this.#hasReasoning || this.#reasoning.length > 0
    return typeof id === 'string' && isPaired ? { id } : {}
  }

  #forgetReasoning(): void {
    this.#reasoning = []
    this.#hasReasoning = false
  }
}

function promptParts({ content, attachments = [] }: Item<'message'>): Fields[] {
  const parts = attachments.map(attachmentPart)
  if (content === '' && parts.length > 0) return parts
  return [{ type: 'input_text', text: content }, ...parts]
}

function attachmentPart(attachment: Attachment): Fields {
  const url = dataUrl(attachment)
  if (attachment.type === 'image') return { type: 'input_image', image_url: url, detail: 'auto' }
  return { type: 'input_file', filename: filenameOf(attachment), file_data: url }
}

function vendorItemOf(item: OutputItem): WireItem | undefined {
  const fields = vendorFields('openai', item)
  return isWireItem(fields) ? fields : undefined
}

function contentOf(item: Item<'message'>): Fields[] {
  const { content, annotations, refusal }: Fields = vendorItemOf(item) ?? {}
  const parts = asList(content).filter(isRecord)
  const text = parts.map((part) => part['text'] ?? part['refusal']).join('')
  if (parts.length > 0 && text === item.content) return parts
  if (refusal === true) return [{ type: 'refusal', refusal: item.content }]
  return [{ type: 'output_text', text: item.content, annotations: asList(annotations) }]
}

type ToolOutput = Pick<Item<'function_call_output'>, 'call_id' | 'output' | 'success'>

const WRITERS: Record<string, (output: ToolOutput) => Fields> = {
  function_call: ({ call_id, output }) => ({ type: 'function_call_output', call_id, output }),
  custom_tool_call: ({ call_id, output }) => ({ type: 'custom_tool_call_output', call_id, output }),
  local_shell_call: ({ call_id: id, output }) => ({ type: 'local_shell_call_output', id, output }),
  shell_call: shellOutput,
  apply_patch_call({ call_id, output, success }) {
    const status = success ? 'completed' : 'failed'
    return { type: 'apply_patch_call_output', call_id, status, output }
  },
  computer_call: computerOutput,
  mcp_approval_request: approval,
}

/** The output of a call in the vendor's form. Throws for calls without outputs. */
export function outputItem(kind: string, output: ToolOutput): Fields {
  const write = Object.hasOwn(WRITERS, kind) ? WRITERS[kind] : undefined
  if (write === undefined) throw refusedOutput(output, `a ${kind} takes no output`)
  return write(output)
}

/** A list of chunks in the vendor's form, or plain text from the command. */
function shellOutput({ call_id, output, success }: ToolOutput): Fields {
  const chunks = parseJsonSafe(output)
  const outcome = { type: 'exit', exit_code: success ? 0 : 1 }
  const plain = [{ stdout: output, stderr: '', outcome }]
  return { type: 'shell_call_output', call_id, output: Array.isArray(chunks) ? chunks : plain }
}

function computerOutput(output: ToolOutput): Fields {
  const screenshot = parseJsonSafe(output.output)
  if (!isRecord(screenshot))
    throw refusedOutput(output, 'a computer_call takes a screenshot object')
  return { type: 'computer_call_output', call_id: output.call_id, output: screenshot }
}

/** Only the exact word approves; a successful tool result does not. */
function approval({ call_id, output }: ToolOutput): Fields {
  const answer = parseJsonSafe(output)
  const approve = isRecord(answer) && answer['approve'] === true
  return { type: 'mcp_approval_response', approval_request_id: call_id, approve }
}

function refusedOutput({ call_id }: ToolOutput, reason: string): TurnstreamError {
  return invalidOption('input', `the output of ${call_id}: ${reason}`)
}
