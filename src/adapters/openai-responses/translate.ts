import { unreachable } from '../../protocol/errors.ts'
import type { ErrorObject, StreamEventPayload } from '../../protocol/stream-event.ts'
import { ResponseWriter } from '../response-writer.ts'
import type { Translation, TranslationContext } from '../translation.ts'
import { Calls } from './calls.ts'
import { TextItems } from './texts.ts'
import {
  decodeResponsesEvent,
  finishReasonOf,
  type ResponseEnd,
  type ResponseFailure,
  type ResponsesEvent,
  type WireItem,
} from './wire.ts'

type ItemEvent = Extract<ResponsesEvent, { itemKey: string }>

/** Items that no reader needs to see but that must go back to the vendor. */
const OPAQUE_TYPES = new Set(['additional_tools', 'compaction'])

/** The meaning of an OpenAI Responses stream. */
export function translateOpenaiResponses(context: TranslationContext): Translation {
  return new ResponsesTranslation(context)
}

class ResponsesTranslation implements Translation {
  readonly #writer: ResponseWriter
  readonly #texts: TextItems
  readonly #calls: Calls
  /** Keys of items that are done: what comes late for them is dropped. */
  readonly #done = new Set<string>()
  /** Whether anything of the output has been streamed. */
  #hasItems = false
  /** Whether the vendor has announced the response that is open. */
  #isAnnounced = false

  constructor(context: TranslationContext) {
    this.#writer = new ResponseWriter(context)
    this.#texts = new TextItems(this.#writer)
    this.#calls = new Calls(this.#writer, context.maxArgumentChars)
  }

  translate(event: unknown): readonly StreamEventPayload[] {
    const decoded = decodeResponsesEvent(event)
    if (decoded.kind === 'unknown') this.#writer.reportUnknown(decoded.type)
    else if (decoded.kind === 'begun') this.#begin(decoded.model)
    else if (this.#writer.hasEnded) return []
    else if (decoded.kind === 'malformed') this.#fail(malformed(decoded.reason))
    else this.#take(decoded)
    return this.#writer.take()
  }

  end(fault?: ErrorObject): readonly StreamEventPayload[] {
    this.#writer.endInput(fault)
    this.#reset()
    return this.#writer.take()
  }

  #take(event: Exclude<ResponsesEvent, { kind: 'begun' }>): void {
    switch (event.kind) {
      case 'ignored':
        return
      case 'ended':
        return this.#finish(event)
      case 'failed':
        return this.#fail(event)
      default:
        this.#hasItems = true
        this.#takeItem(event)
    }
  }

  #takeItem(event: ItemEvent): void {
    const { itemKey } = event
    // A vendor that adds an item where one is done has reused the key.
    if (event.kind === 'item_added') this.#done.delete(itemKey)
    if (this.#done.has(itemKey)) return
    switch (event.kind) {
      case 'item_added':
        return this.#openItem(itemKey, event.item)
      case 'item_done':
        return this.#finishItem(itemKey, event.item)
      case 'part_grown':
        return this.#texts.grow(itemKey, event.part, event.text)
      case 'part_whole':
        return this.#texts.settle(itemKey, event.part, event.text ?? '')
      case 'annotated':
        return this.#texts.annotate(itemKey, event.annotation)
      case 'arguments_grown':
        return this.#calls.growArguments(itemKey, event.text)
      case 'arguments_whole':
        return this.#calls.settleArguments(itemKey, event.text, event.name)
      case 'input_grown':
        return this.#calls.growInput(itemKey, event.text)
      case 'input_whole':
        return this.#calls.settleInput(itemKey, event.text)
      default:
        return unreachable(event)
    }
  }

  /** A vendor that begins again inside a response has given up what it had begun. */
  #begin(model: string | undefined): void {
    if (this.#writer.isOpen && this.#isAnnounced) {
      this.#writer.cancelOpenItems('attempt_reset')
      this.#reset()
    }
    this.#isAnnounced = true
    this.#writer.start(model)
  }

  #openItem(itemKey: string, item: WireItem): void {
    switch (item.type) {
      case 'message':
      case 'reasoning':
        this.#texts.open(item.type, itemKey)
        return
      case 'function_call':
      case 'custom_tool_call':
        return this.#calls.open(itemKey, item)
      default:
        if (!isOutput(item) && !OPAQUE_TYPES.has(item.type)) this.#calls.openBuiltIn(itemKey, item)
    }
  }

  #finishItem(itemKey: string, item: WireItem): void {
    this.#done.add(itemKey)
    switch (item.type) {
      case 'message':
      case 'reasoning':
        return this.#texts.finish(item.type, itemKey, item)
      case 'function_call':
      case 'custom_tool_call':
        return this.#calls.finish(itemKey, item)
      default:
        if (OPAQUE_TYPES.has(item.type)) this.#texts.finish('reasoning', itemKey, item)
        else if (isOutput(item)) this.#calls.finishOutput(itemKey, item)
        else this.#calls.finishBuiltIn(itemKey, item)
    }
  }

  #finish(end: ResponseEnd): void {
    this.#takeMissed(end.output)
    this.#texts.finishAll()
    this.#calls.finishAll()
    if (end.usage !== undefined) this.#writer.setUsage(end.usage)
    const outcome = {
      hasUnansweredCalls: this.#calls.hasUnanswered,
      isRefusal: this.#texts.hasRefusal,
    }
    this.#writer.finish(finishReasonOf(end, outcome), end.word)
    this.#reset()
  }

  /**
   * The end repeats the whole output. It is of use for items that were not said to be done, and when
   * nothing was streamed at all; some servers leave items out of it, so a position alone proves little.
   */
  #takeMissed(output: readonly WireItem[]): void {
    const isAllNew = !this.#hasItems
    for (const [index, item] of output.entries()) {
      const itemKey = `${index}`
      if (isAllNew || this.#isOpen(itemKey, item)) this.#finishItem(itemKey, item)
    }
  }

  #isOpen(itemKey: string, item: WireItem): boolean {
    switch (item.type) {
      case 'message':
      case 'reasoning':
        return this.#texts.isOpen(item.type, itemKey)
      case 'function_call':
      case 'custom_tool_call':
        return this.#calls.isOpen(itemKey)
      default:
        return this.#writer.isOpenItem(`tool ${itemKey}`)
    }
  }

  #fail({ error, usage }: Pick<ResponseFailure, 'error' | 'usage'>): void {
    if (usage !== undefined) this.#writer.setUsage(usage)
    this.#writer.fail(error)
    this.#reset()
  }

  #reset(): void {
    this.#texts.reset()
    this.#calls.reset()
    this.#done.clear()
    this.#hasItems = false
    this.#isAnnounced = false
  }
}

function isOutput({ type }: WireItem): boolean {
  return type.endsWith('_output')
}

function malformed(reason: string): Pick<ResponseFailure, 'error' | 'usage'> {
  return { error: { code: 'UPSTREAM_MALFORMED', message: reason }, usage: undefined }
}
