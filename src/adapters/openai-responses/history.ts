/** A thread as the Responses API wants it: a list of items, its own as they came. */
import { TurnstreamError } from '../../protocol/errors.ts'
import { isRecord, parseJsonObject } from '../../protocol/json.ts'
import type { OutputItem } from '../../protocol/output-item.ts'
import { isExecutedByProvider } from '../../protocol/tool-execution.ts'
import { dataUrl, imagesOf } from '../images.ts'
import { type Fields, isWireItem, type WireItem } from './ending.ts'
import { outputItem } from './tool-outputs.ts'

type Item<Type extends OutputItem['type']> = Extract<OutputItem, { type: Type }>

const NOT_RUN = 'The tool was not run'

export function toInput(items: readonly OutputItem[]): Fields[] {
  const history = new History(items)
  for (const item of items) history.add(item)
  return history.input
}

class History {
  readonly input: Fields[] = []
  readonly #answered: ReadonlySet<string>
  /** The kind of each call that was handed back; of one that means nothing here, undefined. */
  readonly #calls = new Map<string, string | undefined>()
  /** The vendor refuses reasoning that leads to nothing, so it waits for what it led to. */
  #reasoning: Fields[] = []
  /** The vendor refuses its own ids on items whose reasoning is not there. */
  #hasReasoning = false

  constructor(items: readonly OutputItem[]) {
    const outputs = items.filter((item) => item.type === 'function_call_output')
    this.#answered = new Set(outputs.map(({ call_id }) => call_id))
  }

  add(item: OutputItem): void {
    if (wasGivenUp(item)) return
    switch (item.type) {
      case 'message':
        return item.origin === 'agent' ? this.#addAnswer(item) : this.#addPrompt(item)
      case 'reasoning':
        return this.#addReasoning(item)
      case 'function_call':
        return this.#addCall(item)
      case 'function_call_output':
        return this.#addOutput(item)
      case 'error':
      case 'cancelled':
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

  /** Of use is only what the vendor can decrypt: it keeps nothing itself. */
  #addReasoning(item: Item<'reasoning'>): void {
    const own = vendorItemOf(item)
    if (own === undefined) return
    if (own.type !== 'reasoning') this.#addOwn(own)
    else if (typeof own['encrypted_content'] === 'string') this.#reasoning.push(withoutNulls(own))
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
      // A tool of the vendor that waits for the client in vain cannot be excused, only left out.
      this.#addOwn(own)
    }
  }

  #addClientCall(item: Item<'function_call'>, kind: string): void {
    const { call_id, name } = item
    const { id, ...rest }: Fields = vendorItemOf(item) ?? {}
    const isCustom = kind === 'custom_tool_call'
    this.#addOwn({
      ...rest,
      ...this.#idOf(id),
      type: kind,
      call_id,
      name,
      ...(isCustom ? { input: customInput(item.arguments) } : { arguments: item.arguments }),
    })
    // A turn that was stopped leaves such calls behind, and the vendor refuses a thread with one.
    if (!this.#answered.has(call_id)) {
      this.input.push(outputItem(kind, { call_id, output: NOT_RUN, success: false }))
    }
  }

  #addOutput(item: Item<'function_call_output'>): void {
    const { call_id, provider_metadata } = item
    const own = vendorItemOf(item)
    if (isExecutedByProvider(provider_metadata)) {
      // What is part of its call went back with it.
      if (own?.type.endsWith('_output')) this.input.push(own)
      return
    }
    if (!this.#calls.has(call_id)) {
      throw new TurnstreamError('OPTION_INVALID', `input: the output of ${call_id} has no call`)
    }
    const kind = this.#calls.get(call_id)
    if (kind === undefined) return
    this.#forgetReasoning()
    this.input.push(outputItem(kind, item))
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

/** The items of a Response say so when they were cancelled, and a call that broke is none. */
function wasGivenUp(item: OutputItem): boolean {
  return 'cancelled' in item || (item.type === 'function_call' && 'error' in item)
}

function promptParts(item: Item<'message'>): Fields[] {
  const images = imagesOf(item).map((image) => {
    return { type: 'input_image', image_url: dataUrl(image), detail: 'auto' }
  })
  const isPicture = item.content === '' && images.length > 0
  return isPicture ? images : [{ type: 'input_text', text: item.content }, ...images]
}

/** What an item carries of this vendor; undefined when it came from another one. */
function vendorItemOf({ provider_metadata }: OutputItem): WireItem | undefined {
  const fields = provider_metadata?.['openai']
  return isWireItem(fields) ? fields : undefined
}

/** As the vendor wrote it, part by part, unless the text is no longer what it was. */
function contentOf(item: Item<'message'>): Fields[] {
  const { content, annotations, refusal }: Fields = vendorItemOf(item) ?? {}
  const parts = Array.isArray(content) ? content.filter(isRecord) : []
  const text = parts.map((part) => part['text'] ?? part['refusal']).join('')
  if (parts.length > 0 && text === item.content) return parts
  if (refusal === true) return [{ type: 'refusal', refusal: item.content }]
  const list = Array.isArray(annotations) ? annotations : []
  return [{ type: 'output_text', text: item.content, annotations: list }]
}

function customInput(args: string): string {
  const input = parseJsonObject(args)?.['input']
  return typeof input === 'string' ? input : args
}

/** The vendor sends nulls that it does not take back. */
function withoutNulls(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null))
}
