import { Fifo } from '../async/fifo.ts'
import { isExecutedByProvider } from '../items/marks.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import type { Attachment, OutputItem } from '../protocol/output-item.ts'
import { parseUrl } from '../protocol/url.ts'
import { asString, type Fields } from './fields.ts'
import { vendorFields } from './metadata.ts'
import type { ConfiguredTraits, ModelTable, ModelTraits, TraitRows } from './model-traits.ts'
import type { ProviderRequest } from './provider-request.ts'
import type { SentCallIds } from './sent-call-ids.ts'
import type { VendorSettings } from './settings.ts'
import type { Translation, TranslationContext } from './translation.ts'

/** Shared by the requests to all vendors. */

/** A request in the vendor's form. JSON omits undefined fields of `body`. */
export interface VendorRequest {
  url: string
  headers: Record<string, string>
  body: Record<string, unknown>
  /** The call ids in `body`, where answers may repeat them. */
  callIds?: SentCallIds
}

/** `models` is what is known about models; by default it goes by their names. */
export interface RequestOptions extends Pick<VendorOptions, 'baseUrl' | 'apiKey' | 'headers'> {
  models?: ModelTable
}

export function joinUrl(baseUrl: string, path: string): string {
  return `${baseUrl.replace(/\/+$/, '')}${path}`
}

export function bearer(apiKey: string | undefined): Record<string, string> {
  return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
}

export function invalidOption(name: string, reason: string): TurnstreamError {
  return new TurnstreamError('OPTION_INVALID', `${name}: ${reason}`)
}

type ToolChoice = NonNullable<ProviderRequest['toolChoice']>

/** The tool choice to send: vendors refuse one without tools. Throws if it is impossible. */
export function toolChoiceOf({ tools = [], toolChoice }: ProviderRequest): ToolChoice | undefined {
  if (tools.length === 0) {
    if (toolChoice === undefined || toolChoice === 'auto' || toolChoice === 'none') return undefined
    throw invalidOption('toolChoice', 'there are no tools to choose from')
  }
  if (typeof toolChoice !== 'object') return toolChoice
  if (tools.some(({ name }) => name === toolChoice.name)) return toolChoice
  throw invalidOption('toolChoice', `unknown tool ${toolChoice.name}`)
}

export function filenameOf({ filename, media_type }: Attachment): string {
  return filename ?? `file.${media_type.replace(/^.*[/+]/, '')}`
}

export function dataUrl({ media_type, data }: Attachment): string {
  return `data:${media_type};base64,${data}`
}

export const BASE_URL_TAKES = 'an http:// or https:// URL without credentials or a query'

/** Whether a vendor can be called at a URL. Credentials and queries would be lost, or appear in messages. */
export function isBaseUrl(text: string): boolean {
  const url = parseUrl(text)
  if (url === undefined) return false
  const { protocol, username, password, search, hash } = url
  return /^https?:$/.test(protocol) && [username, password, search, hash].every((part) => !part)
}

/** In a browser it may be a path on the page's own host. The error does not repeat a possible secret. */
export function checkBaseUrl(baseUrl: string | undefined): void {
  if (baseUrl === undefined || /^\/(?!\/)[^?#]*$/.test(baseUrl) || isBaseUrl(baseUrl)) return
  throw new TurnstreamError('OPTION_INVALID', `baseUrl takes ${BASE_URL_TAKES}`)
}

export const NOT_RUN = 'The tool was not run'

export type Item<Type extends OutputItem['type']> = Extract<OutputItem, { type: Type }>

/** What the agent did itself; an output here is from a tool that its provider ran. */
export type AgentItem = Item<'message' | 'reasoning' | 'function_call' | 'function_call_output'>

export interface Answer {
  call: Item<'function_call'>
  output: string
  success: boolean
}

export type Step =
  | {
      from: 'user' | 'system'
      text: string
      name: string | undefined
      attachments: readonly Attachment[]
    }
  | { from: 'agent'; items: readonly AgentItem[] }
  | { from: 'tools'; answers: readonly Answer[] }

/** How a vendor recognizes its own items. */
export interface Ownership {
  namespace: string
  /** The field with the vendor's response id of an item. */
  responseField: string
}

/** One step per response of the agent, then the results of its calls: vendors refuse a call without a result. */
export function stepsOf(input: readonly OutputItem[], ownership: Ownership): Step[] {
  const thread = new Thread(ownership)
  for (const item of input) thread.add(item)
  return thread.steps()
}

/** The vendor's ids of the responses in a thread. */
export function responseIdsIn(
  input: readonly OutputItem[],
  { namespace, responseField }: Ownership,
): ReadonlySet<string> {
  return new Set(
    input.flatMap((item) => asString(vendorFields(namespace, item)?.[responseField]) ?? []),
  )
}

interface AgentStep {
  from: 'agent'
  items: AgentItem[]
  response: string | undefined
}

class Thread {
  readonly #ownership: Ownership
  readonly #steps: (AgentStep | Extract<Step, { text: string }>)[] = []
  /** By call id, which some vendors reuse. */
  readonly #outputs = new Map<string, Fifo<Item<'function_call_output'>>>()
  /** Calls that failed, or that another provider ran: their outputs are ignored. */
  readonly #omitted = new Set<string>()
  /** An output ends the agent's step, although it is stored elsewhere. */
  #isAnswered = false

  constructor(ownership: Ownership) {
    this.#ownership = ownership
  }

  add(item: OutputItem): void {
    if (wasAbandoned(item)) return this.#omit(item)
    switch (item.type) {
      case 'message': {
        const { origin: from, content: text, name, attachments = [] } = item
        if (from === 'agent') return this.#addAgent(item)
        this.#steps.push({ from, text, name, attachments })
        return
      }
      case 'reasoning':
        return this.#addAgent(item)
      case 'function_call':
        return this.#isForeign(item) ? this.#omit(item) : this.#addAgent(item)
      case 'function_call_output':
        return this.#addOutput(item)
      // Our own failures and approvals are not shown to the model.
      default:
    }
  }

  #omit(item: OutputItem): void {
    if (item.type === 'function_call') this.#omitted.add(item.call_id)
  }

  #isForeign(item: OutputItem): boolean {
    return isExecutedByProvider(item.provider_metadata) && this.#fieldsOf(item) === undefined
  }

  #fieldsOf(item: OutputItem): Fields | undefined {
    return vendorFields(this.#ownership.namespace, item)
  }

  #addOutput(item: Item<'function_call_output'>): void {
    if (this.#omitted.has(item.call_id) || this.#isForeign(item)) return
    if (isExecutedByProvider(item.provider_metadata)) return this.#addAgent(item)
    this.#isAnswered = true
    const outputs = this.#outputs.get(item.call_id) ?? new Fifo()
    this.#outputs.set(item.call_id, outputs)
    outputs.push(item)
  }

  #addAgent(item: AgentItem): void {
    const response = asString(this.#fieldsOf(item)?.[this.#ownership.responseField])
    const last = this.#steps.at(-1)
    const isSame = last?.from === 'agent' && response !== undefined && last.response === response
    // A tool may answer while the same response continues.
    if (last?.from === 'agent' && (isSame || !this.#isAnswered)) {
      last.items.push(item)
      last.response = response
      return
    }
    this.#isAnswered = false
    this.#steps.push({ from: 'agent', items: [item], response })
  }

  steps(): Step[] {
    const steps = this.#steps.flatMap((step): Step[] => {
      if (step.from !== 'agent') return [step]
      const { from, items } = step
      const answers = items.flatMap((item) => this.#answerTo(item))
      const answered: Step[] = answers.length > 0 ? [{ from: 'tools', answers }] : []
      return [{ from, items }, ...answered]
    })
    this.#refuseOrphans()
    return steps
  }

  #answerTo(item: AgentItem): Answer[] {
    if (item.type !== 'function_call' || isExecutedByProvider(item.provider_metadata)) return []
    const outputs = this.#outputs.get(item.call_id)
    const answer = outputs !== undefined && outputs.size > 0 ? outputs.shift() : undefined
    const { output = NOT_RUN, success = false } = answer ?? {}
    return [{ call: item, output, success }]
  }

  #refuseOrphans(): void {
    for (const [id, outputs] of this.#outputs) {
      if (outputs.size === 0) continue
      throw invalidOption('input', `the output of ${id} has no call`)
    }
  }
}

/** Cancelled items are marked, and a failed call cannot be answered. */
export function wasAbandoned(item: OutputItem): boolean {
  return 'cancelled' in item || (item.type === 'function_call' && 'error' in item)
}

/** Where a vendor's API is, and what its models take. */
export interface VendorOptions {
  /** Provider id of its responses. */
  id?: string
  baseUrl?: string
  apiKey?: string
  headers?: Record<string, string>
  /** Output tokens that its models allow. A request for more gets these. */
  maxOutputTokens?: number
  /** What its models take, where their names do not tell. */
  modelTraits?: ConfiguredTraits
}

/** An API that is called over HTTP and responds with a stream. */
export interface Vendor<Options extends VendorOptions> {
  /** Id of its providers by default. */
  readonly id: string
  /** How it recognizes its own items, if it tells its responses apart. */
  readonly ownership?: (providerId: string) => Ownership
  readonly models?: TraitRows
  readonly settings?: (options: Options, models: ModelTable) => VendorSettings
  readonly buildRequest: (
    request: ProviderRequest,
    options: Options & { models?: ModelTable },
  ) => VendorRequest
  readonly createTranslation: (context: TranslationContext) => Translation
  /** Matches the errors by which it refuses signatures and encrypted reasoning. */
  readonly refusal?: RegExp
  /** What an error says about the model of the request, so that it can be asked in another form. */
  readonly learn?: (request: ProviderRequest, error: string) => Partial<ModelTraits> | undefined
  /** The request to send after an error about a setting that nobody asked for, without that setting. */
  readonly withoutDefaults?: (
    request: ProviderRequest,
    error: string,
  ) => ProviderRequest | undefined
  /** Builds the request after a refusal, from items without vendor data. Default `buildRequest`. */
  readonly rebuildRequest?: Vendor<Options>['buildRequest']
}
