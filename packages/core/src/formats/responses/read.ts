import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import { asFields, asString, DONE, type Fields, Malformed } from '../fields.ts'
import { type Translation, type TranslationContext, WriterTranslation } from '../translation.ts'
import {
  decodeEnd,
  decodeError,
  finishReasonOf,
  isWireItem,
  itemKeyOf,
  RESPONSES_EVENT_TYPES,
  type ResponseEnd,
  type ResponseFailure,
  readDelta,
  readText,
  type WireItem,
} from './decode.ts'
import { Calls } from './read-calls.ts'
import { TextItems, type TextItemType } from './read-texts.ts'

/** Items that readers do not need but the vendor wants back. */
const OPAQUE_TYPES = new Set(['additional_tools', 'compaction'])

export function translateOpenaiResponses(context: TranslationContext): Translation {
  return new OpenaiResponsesTranslation(context)
}

/** Shared by the Responses API and `response.*` notifications. */
export abstract class ResponsesTranslation extends WriterTranslation {
  protected readonly texts = new TextItems(this.writer)
  /** Keys of finished items: late events for them are dropped. */
  protected readonly done = new Set<string>()
  /** Whether any output has been streamed. */
  protected hasItems = false
  #isAnnounced = false

  /** A new start inside a response abandons what came before. */
  protected begin(event: Fields): void {
    if (this.writer.isOpen && this.#isAnnounced) {
      this.writer.cancelOpenItems('attempt_reset')
      this.reset()
    }
    this.#isAnnounced = true
    this.writer.start(asString(asFields(event['response'])['model']))
  }

  /** Writes items that the end completes. Returns whether calls await a result. */
  protected abstract finishItems(output: readonly WireItem[]): boolean

  protected applyEnd(end: ResponseEnd | ResponseFailure): void {
    if (end.usage !== undefined) this.writer.setUsage(end.usage)
    if (end.kind === 'failed') return this.fail(end.error)
    const hasUnansweredCalls = this.finishItems(end.output)
    const reason = finishReasonOf(end, hasUnansweredCalls, this.texts.hasRefusal)
    this.writer.finish(reason, end.word)
    this.reset()
  }

  protected override close(fault?: ErrorObject): void {
    super.close(fault)
    this.reset()
  }

  protected override fail(error: ErrorObject): void {
    super.fail(error)
    this.reset()
  }

  protected reset(): void {
    this.texts.reset()
    this.done.clear()
    this.hasItems = false
    this.#isAnnounced = false
  }
}

class OpenaiResponsesTranslation extends ResponsesTranslation {
  readonly #calls = new Calls(this.writer)

  protected apply(json: unknown): void {
    // Some servers end their stream like Chat Completions.
    if (json === DONE) return
    const event = asEvent(json)
    const { type } = event
    // Checked first: nearly every event is text.
    const piece = readText(type, event)
    if (piece !== undefined && !this.writer.hasEnded) {
      const itemKey = this.#reach(event)
      if (itemKey !== undefined) this.texts.add(itemKey, piece)
    } else if (type === 'response.created') {
      this.begin(event)
    } else if (!RESPONSES_EVENT_TYPES.has(type)) this.writer.reportUnknown(type)
    else if (!this.writer.hasEnded) this.#applyKnown(type, event)
  }

  #applyKnown(type: string, event: Fields): void {
    switch (type) {
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
        return this.applyEnd(decodeEnd(event))
      case 'error':
        return this.applyEnd(decodeError(event))
      case 'response.output_item.added':
      case 'response.output_item.done': {
        const { item } = event
        if (!isWireItem(item)) throw new Malformed(`${type} without a usable item`)
        return this.#applyItem(type === 'response.output_item.added', event, item)
      }
      case 'response.output_text.annotation.added':
        return this.#change(event, (key) => this.texts.annotate(key, event['annotation']))
      case 'response.function_call_arguments.delta':
        return this.#change(event, (key) => this.#calls.grow(key, readDelta(type, event), false))
      case 'response.function_call_arguments.done': {
        const { arguments: args, name } = event
        return this.#change(event, (key) => {
          this.#calls.settleArguments(key, asString(args), asString(name))
        })
      }
      case 'response.custom_tool_call_input.delta':
        return this.#change(event, (key) => this.#calls.grow(key, readDelta(type, event), true))
      case 'response.custom_tool_call_input.done':
        return this.#change(event, (key) => this.#calls.settleInput(key, asString(event['input'])))
    }
  }

  #change(event: Fields, change: (itemKey: string) => void): void {
    const itemKey = this.#reach(event)
    if (itemKey !== undefined) change(itemKey)
  }

  /** The item key of an event; undefined if the item is done. */
  #reach(event: Fields): string | undefined {
    this.hasItems = true
    const itemKey = itemKeyOf(event)
    return this.done.has(itemKey) ? undefined : itemKey
  }

  #applyItem(isAdded: boolean, event: Fields, item: WireItem): void {
    this.hasItems = true
    const itemKey = itemKeyOf(event, item)
    // A new item at the position of a finished one reuses the key.
    if (isAdded) this.done.delete(itemKey)
    if (this.done.has(itemKey)) return
    if (isAdded) this.#openItem(itemKey, item)
    else this.#finishItem(itemKey, item)
  }

  #openItem(itemKey: string, item: WireItem): void {
    if (isText(item)) this.texts.open(item.type, itemKey)
    else if (isClientCall(item)) this.#calls.open(itemKey, item)
    else if (!isOutput(item) && !OPAQUE_TYPES.has(item.type)) this.#calls.openBuiltIn(itemKey, item)
  }

  #finishItem(itemKey: string, item: WireItem): void {
    this.done.add(itemKey)
    if (isText(item)) this.texts.finish(item.type, itemKey, item)
    else if (isClientCall(item)) this.#calls.finish(itemKey, item)
    else if (OPAQUE_TYPES.has(item.type)) this.texts.finish('reasoning', itemKey, item)
    else if (isOutput(item)) this.#calls.finishOutput(itemKey, item)
    else this.#calls.finishBuiltIn(itemKey, item)
  }

  /** Takes items that did not end. Some servers omit items from `output`, so a position alone is not reliable. */
  protected finishItems(output: readonly WireItem[]): boolean {
    const isAllNew = !this.hasItems
    for (const [index, item] of output.entries()) {
      const itemKey = `${index}`
      if (isAllNew || this.#isOpen(itemKey, item)) this.#finishItem(itemKey, item)
    }
    this.texts.finishAll()
    this.#calls.finishAll()
    return this.#calls.hasUnanswered
  }

  #isOpen(itemKey: string, item: WireItem): boolean {
    if (isText(item)) return this.texts.isOpen(item.type, itemKey)
    if (isClientCall(item)) return this.#calls.isOpen(itemKey)
    return this.writer.isOpenItem(`tool ${itemKey}`)
  }

  protected override reset(): void {
    super.reset()
    this.#calls.reset()
  }
}

function isText(item: WireItem): item is WireItem & { type: TextItemType } {
  return item.type === 'message' || item.type === 'reasoning'
}

function isClientCall({ type }: WireItem): boolean {
  return type === 'function_call' || type === 'custom_tool_call'
}

function isOutput({ type }: WireItem): boolean {
  return type.endsWith('_output')
}

function asEvent(event: unknown): WireItem {
  if (isWireItem(event)) return event
  if (!isRecord(event)) throw new Malformed('the event is not an object')
  // Failing gateways send an error in place of an event.
  if (isRecord(event['error'])) return { ...event, type: 'error' }
  throw new Malformed('type is not a string')
}
