import { unreachable } from '../../protocol/errors.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import { asNonEmpty, type Fields } from '../fields.ts'
import {
  decodeEnd,
  decodeError,
  isWireItem,
  type ResponseFailure,
  readText,
  type WireItem,
} from '../responses/decode.ts'
import { ResponsesTranslation } from '../responses/read.ts'
import { TextItems, type TextItemType, textTypeOf } from '../responses/read-texts.ts'
import { itemOf, ToolCallAggregator, type ToolCallChange } from '../tool-call-aggregator.ts'
import type { ResponseWriter, Translation, TranslationContext } from '../translation.ts'
import { decodeNotification, type Notification, type NotificationAction } from './decode.ts'

/** Some proxies end their stream like Chat Completions. */
const DONE = '[DONE]'

/** Translates a stream of `response.*` notifications. */
export function translateResponseNotifications(context: TranslationContext): Translation {
  return new NotificationTranslation(context)
}

/** With a `writer` the response may be one that another translation started. */
export class NotificationTranslation extends ResponsesTranslation {
  readonly #itemKeys = new ItemKeys(this.texts)
  readonly #aggregator: ToolCallAggregator
  #calls = { completed: 0, failed: 0 }

  constructor(context: TranslationContext, writer?: ResponseWriter) {
    super(context, writer)
    this.#aggregator = new ToolCallAggregator({ maxArgumentChars: context.maxArgumentChars })
  }

  protected apply(event: unknown): void {
    if (event === DONE) return
    const decoded = decodeNotification(event)
    if (decoded.action === 'unknown') this.writer.reportUnknown(decoded.type)
    else if (!this.writer.hasEnded || decoded.action === 'begin') {
      this.#act(decoded.action, decoded.notification)
    }
  }

  /** Finished calls end the response: some proxies send no other end. */
  protected override close(fault?: ErrorObject): void {
    const { completed, failed } = this.#calls
    const isFinished = completed > 0 && failed === 0 && this.#aggregator.size === 0
    if (fault === undefined && isFinished && this.writer.isOpen) {
      this.texts.finishAll()
      this.writer.finish('tool_calls', null)
    }
    super.close(fault)
  }

  #act(action: NotificationAction, notification: Notification): void {
    switch (action) {
      case 'begin':
        return this.begin(notification)
      case 'text':
        return this.#applyText(notification)
      case 'call':
        return this.#writeCalls(this.#aggregator.ingest(notification))
      case 'item':
        return this.#applyItem(notification)
      case 'finish':
        return this.applyEnd(decodeEnd(notification))
      case 'fail':
        return this.applyEnd(decodeFailure(notification))
      case 'ignore':
        return
      default:
        return unreachable(action)
    }
  }

  #applyText(notification: Notification): void {
    const piece = readText(notification.type, notification)
    if (piece === undefined) return
    const itemKey = this.#itemKeys.ofPart(textTypeOf(piece.kind), notification)
    if (this.done.has(itemKey)) return
    this.hasItems = true
    this.texts.add(itemKey, piece)
  }

  #applyItem(notification: Notification): void {
    this.hasItems = true
    const item = itemOf(notification)
    if (isWireItem(item) && (item.type === 'message' || item.type === 'reasoning')) {
      this.#applyTextItem(item.type, notification, item)
    } else {
      // Also ends calls whose item has no type.
      this.#writeCalls(this.#aggregator.ingest(notification))
    }
  }

  #applyTextItem(type: TextItemType, notification: Notification, item: WireItem): void {
    const itemKey = this.#itemKeys.ofItem(type, notification, item)
    if (notification.type === 'response.output_item.added') {
      this.done.delete(itemKey)
      this.texts.openAtOnce(type, itemKey)
    } else if (!this.done.has(itemKey)) {
      // Text without an id is new text, not late text.
      if (itemKey !== UNNAMED) this.done.add(itemKey)
      this.texts.finish(type, itemKey, item)
    }
  }

  #writeCalls(changes: readonly ToolCallChange[]): void {
    if (changes.length > 0) this.hasItems = true
    for (const change of changes) {
      if (change.change === 'completed') this.#calls.completed += 1
      if (change.change === 'failed') this.#calls.failed += 1
      this.#writeCall(change)
    }
  }

  #writeCall(change: ToolCallChange): void {
    const { key, call } = change
    const { name, id: call_id } = call
    switch (change.change) {
      case 'opened':
        return this.writer.openItem(key, 'function_call', { ...(name !== '' && { name }), call_id })
      case 'grown':
        return this.writer.append(key, change.fragment)
      case 'completed':
        return this.writer.finishItem(key, { content: call.args, name, call_id })
      case 'failed':
        return this.writer.failItem(key, change.error)
    }
  }

  /** The end repeats the complete output; some proxies send nothing else. */
  protected finishItems(output: readonly WireItem[]): boolean {
    if (!this.hasItems) {
      for (const [output_index, item] of output.entries()) {
        this.#applyItem({ type: 'response.output_item.done', output_index, item })
      }
    }
    this.texts.finishAll()
    this.#writeCalls(this.#aggregator.finishAll())
    return this.#calls.completed > 0
  }

  protected override reset(): void {
    super.reset()
    this.#itemKeys.clear()
    this.#aggregator.reset()
    this.#calls = { completed: 0, failed: 0 }
  }
}

/** A failed response has more details than an error. */
function decodeFailure(notification: Notification): ResponseFailure {
  const decoded = decodeEnd(notification)
  return decoded.kind === 'failed' ? decoded : decodeError(notification)
}

/** Key of text without an id. */
const UNNAMED = ''

/**
 * Finds the message or reasoning of a notification, which may have an index, an id, or neither. Aliases are learned
 * from complete items only: elsewhere an id may be made up.
 */
class ItemKeys {
  readonly #texts: TextItems
  readonly #byName = new Map<string, string>()

  constructor(texts: TextItems) {
    this.#texts = texts
  }

  ofPart(type: TextItemType, event: Fields): string {
    const names = namesOf(event, event['item_id'])
    const last = names.length === 0 ? this.#texts.lastOpen(type) : undefined
    return this.#known(type, names) ?? last ?? names[0] ?? UNNAMED
  }

  ofItem(type: TextItemType, event: Fields, item: Fields): string {
    const names = namesOf(event, item['id'] ?? event['item_id'])
    const isUnnamedOpen = this.#texts.isOpen(type, UNNAMED)
    const itemKey = this.#known(type, names) ?? (isUnnamedOpen ? UNNAMED : (names[0] ?? UNNAMED))
    for (const name of names) this.#byName.set(name, itemKey)
    return itemKey
  }

  clear(): void {
    this.#byName.clear()
  }

  #known(type: TextItemType, names: readonly string[]): string | undefined {
    const name = names.find((each) => this.#byName.has(each) || this.#texts.isOpen(type, each))
    return name === undefined ? undefined : (this.#byName.get(name) ?? name)
  }
}

function namesOf({ output_index }: Fields, id: unknown): string[] {
  const name = asNonEmpty(id)
  return [
    ...(typeof output_index === 'number' ? [`${output_index}`] : []),
    ...(name === undefined ? [] : [`id ${name}`]),
  ]
}
