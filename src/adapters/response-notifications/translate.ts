import { unreachable } from '../../protocol/errors.ts'
import type { ErrorObject, StreamEventPayload } from '../../protocol/stream-event.ts'
import { asFields, asNonEmpty, asString, type Fields, Malformed } from '../fields.ts'
import { TextItems, type TextItemType, textTypeOf } from '../openai-responses/texts.ts'
import {
  decodeEnd,
  decodeError,
  finishReasonOf,
  isWireItem,
  type ResponseEnd,
  type ResponseFailure,
  readText,
  type WireItem,
} from '../openai-responses/wire.ts'
import { ResponseWriter } from '../response-writer.ts'
import { itemOf, ToolCallAggregator, type ToolCallChange } from '../tool-call-aggregator.ts'
import type { Translation, TranslationContext } from '../translation.ts'
import { decodeNotification, type Notification, type NotificationAction } from './wire.ts'

/** Some proxies end their stream as Chat Completions does. */
const DONE = '[DONE]'

/** The meaning of a stream of `response.*` notifications. */
export function translateResponseNotifications(context: TranslationContext): Translation {
  return new NotificationTranslation(context)
}

class NotificationTranslation implements Translation {
  readonly #writer: ResponseWriter
  readonly #texts: TextItems
  readonly #itemKeys: ItemKeys
  readonly #aggregator: ToolCallAggregator
  /** Keys of items that are done: what comes late for them is dropped. */
  readonly #done = new Set<string>()
  #calls = { completed: 0, failed: 0 }
  /** Whether anything of the output has been streamed. */
  #hasItems = false
  /** Whether the response that is open has been announced. */
  #isAnnounced = false

  constructor(context: TranslationContext) {
    this.#writer = new ResponseWriter(context)
    this.#texts = new TextItems(this.#writer)
    this.#itemKeys = new ItemKeys(this.#texts)
    this.#aggregator = new ToolCallAggregator({ maxArgumentChars: context.maxArgumentChars })
  }

  translate(event: unknown): readonly StreamEventPayload[] {
    if (event === DONE) return []
    try {
      const decoded = decodeNotification(event)
      if (decoded.action === 'unknown') this.#writer.reportUnknown(decoded.type)
      else if (!this.#writer.hasEnded || decoded.action === 'begin') {
        this.#act(decoded.action, decoded.notification)
      }
    } catch (error) {
      const message = error instanceof Malformed ? error.message : 'the notification cannot be read'
      this.#fail({ error: { code: 'UPSTREAM_MALFORMED', message }, usage: undefined })
    }
    return this.#writer.take()
  }

  /** Calls that are all done are an end; this grammar has proxies that announce no other. */
  end(fault?: ErrorObject): readonly StreamEventPayload[] {
    const { completed, failed } = this.#calls
    const isFinished = completed > 0 && failed === 0 && this.#aggregator.size === 0
    if (fault === undefined && isFinished && this.#writer.isOpen) {
      this.#texts.finishAll()
      this.#writer.finish('tool_calls', null)
    }
    this.#writer.endInput(fault)
    this.#reset()
    return this.#writer.take()
  }

  #act(action: NotificationAction, notification: Notification): void {
    switch (action) {
      case 'begin':
        return this.#begin(notification)
      case 'text':
        return this.#takeText(notification)
      case 'call':
        return this.#writeCalls(this.#aggregator.ingest(notification))
      case 'item':
        return this.#takeItem(notification)
      case 'finish': {
        const end = decodeEnd(notification)
        return end.kind === 'ended' ? this.#finish(end) : this.#fail(end)
      }
      case 'fail':
        return this.#fail(decodeFailure(notification))
      case 'ignore':
        return
      default:
        return unreachable(action)
    }
  }

  /** Who begins again inside a response has given up what had begun. */
  #begin(notification: Notification): void {
    if (this.#writer.isOpen && this.#isAnnounced) {
      this.#writer.cancelOpenItems('attempt_reset')
      this.#reset()
    }
    this.#isAnnounced = true
    this.#writer.start(asString(asFields(notification['response'])['model']))
  }

  #takeText(notification: Notification): void {
    const piece = readText(notification.type, notification)
    if (piece === undefined) return
    const itemKey = this.#itemKeys.ofPart(textTypeOf(piece.kind), notification)
    if (this.#done.has(itemKey)) return
    this.#hasItems = true
    this.#texts.add(itemKey, piece)
  }

  #takeItem(notification: Notification): void {
    this.#hasItems = true
    const item = itemOf(notification)
    if (!isWireItem(item)) return
    if (item.type === 'message' || item.type === 'reasoning') {
      this.#takeTextItem(item.type, notification, item)
    } else {
      this.#writeCalls(this.#aggregator.ingest(notification))
    }
  }

  #takeTextItem(type: TextItemType, notification: Notification, item: WireItem): void {
    const itemKey = this.#itemKeys.ofItem(type, notification, item)
    if (notification.type === 'response.output_item.added') {
      this.#done.delete(itemKey)
      this.#texts.openAtOnce(type, itemKey)
    } else if (!this.#done.has(itemKey)) {
      // More text without a name is more text, not late text.
      if (itemKey !== UNNAMED) this.#done.add(itemKey)
      this.#texts.finish(type, itemKey, item)
    }
  }

  #writeCalls(changes: readonly ToolCallChange[]): void {
    if (changes.length > 0) this.#hasItems = true
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
        return this.#writer.openItem(key, 'function_call', {
          ...(name !== '' && { name }),
          call_id,
        })
      case 'grown':
        return this.#writer.append(key, change.fragment)
      case 'completed':
        return this.#writer.finishItem(key, { content: call.args, name, call_id })
      case 'failed':
        return this.#writer.failItem(key, change.error)
    }
  }

  #finish(end: ResponseEnd): void {
    if (!this.#hasItems) this.#takeOutput(end.output)
    this.#texts.finishAll()
    this.#writeCalls(this.#aggregator.finishAll())
    if (end.usage !== undefined) this.#writer.setUsage(end.usage)
    const hasUnansweredCalls = this.#calls.completed > 0
    const reason = finishReasonOf(end, { hasUnansweredCalls, isRefusal: this.#texts.hasRefusal })
    this.#writer.finish(reason, end.word)
    this.#reset()
  }

  /** The end repeats the whole output, which is all that some proxies send of it. */
  #takeOutput(output: readonly WireItem[]): void {
    for (const [output_index, item] of output.entries()) {
      this.#takeItem({ type: 'response.output_item.done', output_index, item })
    }
  }

  #fail({ error, usage }: Pick<ResponseFailure, 'error' | 'usage'>): void {
    if (usage !== undefined) this.#writer.setUsage(usage)
    this.#writer.fail(error)
    this.#reset()
  }

  #reset(): void {
    this.#texts.reset()
    this.#itemKeys.clear()
    this.#aggregator.reset()
    this.#done.clear()
    this.#calls = { completed: 0, failed: 0 }
    this.#hasItems = false
    this.#isAnnounced = false
  }
}

/** A response that failed says more of itself than an error does. */
function decodeFailure(notification: Notification): ResponseFailure {
  const decoded = decodeEnd(notification)
  return decoded.kind === 'failed' ? decoded : decodeError(notification)
}

/** The key of text without a name. */
const UNNAMED = ''

/**
 * Which message or thought a notification is about, when one gives its index, the next its id, and
 * some neither. Only whole items teach us names: in the others an id may be made up.
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
