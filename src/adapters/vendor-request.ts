/** What the requests to all vendors have in common. */
import { TurnstreamError } from '../protocol/errors.ts'
import { isExecutedByProvider } from '../protocol/item-marks.ts'
import type { Attachment, OutputItem } from '../protocol/output-item.ts'
import { asString, type Fields } from './fields.ts'
import type { HttpProviderOptions } from './http-provider.ts'
import { vendorFields } from './metadata.ts'
import type { ProviderRequest } from './provider.ts'

/** The request in the vendor's form. JSON leaves out the fields of `body` that are undefined. */
export interface VendorRequest {
  url: string
  headers: Record<string, string>
  body: Record<string, unknown>
}

export type RequestOptions = Pick<HttpProviderOptions, 'baseUrl' | 'apiKey' | 'headers'>

export function joinUrl(baseUrl: string, path: string): string {
  return `${baseUrl.replace(/\/+$/, '')}${path}`
}

export function bearer(apiKey: string | undefined): Record<string, string> {
  return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
}

/** Why a request cannot be sent to this vendor. */
export function invalidOption(name: string, reason: string): TurnstreamError {
  return new TurnstreamError('OPTION_INVALID', `${name}: ${reason}`)
}

type ToolChoice = NonNullable<ProviderRequest['toolChoice']>

/**
 * The choice as it may be sent: vendors refuse one where there is nothing to choose from. Throws when
 * it cannot be honoured.
 */
export function toolChoiceOf({ tools = [], toolChoice }: ProviderRequest): ToolChoice | undefined {
  if (tools.length === 0) {
    if (toolChoice === undefined || toolChoice === 'auto' || toolChoice === 'none') return undefined
    throw invalidOption('toolChoice', 'there are no tools to choose from')
  }
  if (typeof toolChoice !== 'object') return toolChoice
  if (tools.some(({ name }) => name === toolChoice.name)) return toolChoice
  throw invalidOption('toolChoice', `there is no tool ${toolChoice.name}`)
}

export function imagesOf({ attachments = [] }: Extract<OutputItem, { type: 'message' }>) {
  return attachments.filter(({ type }) => type === 'image')
}

export function dataUrl({ media_type, data }: Attachment): string {
  return `data:${media_type};base64,${data}`
}

export const BASE_URL_TAKES =
  'an http:// or https:// address without a user, a password and a query'

/**
 * Whether a vendor can be called at an address. Credentials and queries are refused: they would be lost, or
 * stand in every message that names the address.
 */
export function isBaseUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return /^https?:$/.test(protocol) && [username, password, search, hash].every((part) => !part)
}

/** In a browser it may be a path of the page's own host. The refusal does not repeat what may be a secret. */
export function checkBaseUrl(baseUrl: string | undefined): void {
  if (baseUrl === undefined || /^\/(?!\/)[^?#]*$/.test(baseUrl) || isBaseUrl(baseUrl)) return
  throw new TurnstreamError('OPTION_INVALID', `baseUrl takes ${BASE_URL_TAKES}`)
}

/** The output of a call that nobody answered. */
export const NOT_RUN = 'The tool was not run'

export type Item<Type extends OutputItem['type']> = Extract<OutputItem, { type: Type }>

/** What the agent did by itself; an output among it is of a tool that its provider ran. */
export type AgentItem = Item<'message' | 'reasoning' | 'function_call' | 'function_call_output'>

/** A call that waits for an answer, and the one it got. */
export interface Answer {
  call: Item<'function_call'>
  output: string
  success: boolean
}

export type Step =
  | { from: 'user' | 'system'; text: string; images: readonly Attachment[] }
  | { from: 'agent'; items: readonly AgentItem[] }
  | { from: 'tools'; answers: readonly Answer[] }

/** How a vendor recognises its own items. */
export interface Ownership {
  /** Of the vendor's fields in `provider_metadata`. */
  namespace: string
  /** The field that names the vendor's response which an item came from. */
  responseField: string
}

/**
 * A thread as vendors want it that take turns: what the agent did in one response is one step, and the
 * step after it answers each of its calls. A call that nobody answered is answered here, because they
 * refuse a thread with an open one.
 */
export function stepsOf(input: readonly OutputItem[], ownership: Ownership): Step[] {
  const thread = new Thread(ownership)
  for (const item of input) thread.add(item)
  return thread.steps()
}

interface AgentStep {
  from: 'agent'
  items: AgentItem[]
  response: string | undefined
}

class Thread {
  readonly #ownership: Ownership
  readonly #steps: (AgentStep | Extract<Step, { text: string }>)[] = []
  /** By call id, which some vendors use again. */
  readonly #outputs = new Map<string, Item<'function_call_output'>[]>()
  /** Calls that broke, or that another provider ran for itself: their outputs mean nothing. */
  readonly #omitted = new Set<string>()
  /** An output ends the step of the agent, although it stands elsewhere. */
  #isAnswered = false

  constructor(ownership: Ownership) {
    this.#ownership = ownership
  }

  add(item: OutputItem): void {
    if (wasAbandoned(item)) return this.#omit(item)
    switch (item.type) {
      case 'message':
        if (item.origin === 'agent') return this.#addAgent(item)
        this.#steps.push({ from: item.origin, text: item.content, images: imagesOf(item) })
        return
      case 'reasoning':
        return this.#addAgent(item)
      case 'function_call':
        return this.#isForeign(item) ? this.#omit(item) : this.#addAgent(item)
      case 'function_call_output':
        return this.#addOutput(item)
      // What went wrong here is not the model's to know.
      case 'error':
      case 'cancelled':
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
    const outputs = this.#outputs.get(item.call_id) ?? []
    this.#outputs.set(item.call_id, outputs)
    outputs.push(item)
  }

  #addAgent(item: AgentItem): void {
    const response = asString(this.#fieldsOf(item)?.[this.#ownership.responseField])
    const last = this.#steps.at(-1)
    const isSame = last?.from === 'agent' && response !== undefined && last.response === response
    // A tool may answer while the same response still goes on.
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
    const answer = this.#outputs.get(item.call_id)?.shift()
    const { output = NOT_RUN, success = false } = answer ?? {}
    return [{ call: item, output, success }]
  }

  #refuseOrphans(): void {
    for (const [id, outputs] of this.#outputs) {
      if (outputs.length === 0) continue
      throw invalidOption('input', `the output of ${id} has no call`)
    }
  }
}

/** Cancelled items are marked as such, and a call that failed cannot be answered. */
export function wasAbandoned(item: OutputItem): boolean {
  return 'cancelled' in item || (item.type === 'function_call' && 'error' in item)
}
