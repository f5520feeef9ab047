import { unreachable } from '../../protocol/errors.ts'
import type { ErrorObject, StreamEventPayload } from '../../protocol/stream-event.ts'
import { itemOf } from '../call-notification.ts'
import { oncePerType } from '../once-per-type.ts'
import { writeCallChange } from '../openai-responses/call-changes.ts'
import {
  decodeEnd,
  decodeError,
  finishReasonOf,
  isWireItem,
  type ResponseEnd,
  type ResponseFailure,
  type WireItem,
} from '../openai-responses/ending.ts'
import { TextItems, type TextItemType, textTypeOf } from '../openai-responses/text-items.ts'
import { decodeResponsesEvent } from '../openai-responses/wire.ts'
import { ResponseWriter } from '../response-writer.ts'
import { ToolCallAggregator, type ToolCallChange } from '../tool-call-aggregator.ts'
import type { Translation, TranslationContext } from '../translation.ts'
import { Places, UNNAMED } from './places.ts'
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
  readonly #places: Places
  readonly #aggregator: ToolCallAggregator
  readonly #reportUnknown: (type: string) => void
  /** Places whose item is done: what comes late for them is dropped. */
  readonly #done = new Set<string>()
  #calls = { completed: 0, failed: 0 }
  /** Whether anything of the output has been streamed. */
  #hasItems = false
  /** Whether the response that is open has been announced. */
  #isAnnounced = false

  constructor(context: TranslationContext) {
    this.#reportUnknown = oncePerType(context.onUnknown)
    const { maxArgumentChars } = context
    this.#writer = new ResponseWriter(context)
    this.#texts = new TextItems(this.#writer)
    this.#places = new Places(this.#texts)
    this.#aggregator = new ToolCallAggregator({
      ...(maxArgumentChars !== undefined && { maxArgumentChars }),
    })
  }

  translate(event: unknown): readonly StreamEventPayload[] {
    if (event === DONE) return []
    const decoded = decodeNotification(event)
    if (decoded.action === 'unknown') this.#reportUnknown(decoded.type)
    else if (decoded.action === 'malformed') this.#fail(malformed(decoded.reason))
    else if (!this.#writer.hasEnded || decoded.action === 'begin') {
      this.#act(decoded.action, decoded.notification)
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
      case 'finish':
        return this.#close(decodeEnd(notification))
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
    const decoded = decodeResponsesEvent(notification)
    this.#writer.start(decoded.kind === 'begun' ? decoded.model : undefined)
  }

  #takeText(notification: Notification): void {
    const decoded = decodeResponsesEvent(notification)
    if (decoded.kind === 'malformed') return this.#fail(malformed(decoded.reason))
    if (decoded.kind !== 'part_grown' && decoded.kind !== 'part_whole') return
    const { kind, part, text = '' } = decoded
    const place = this.#places.ofPart(textTypeOf(part), notification)
    if (this.#done.has(place)) return
    this.#hasItems = true
    if (kind === 'part_grown') this.#texts.grow(place, part, text)
    else this.#texts.settle(place, part, text)
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
    const place = this.#places.ofItem(type, notification, item)
    if (notification.type === 'response.output_item.added') {
      this.#done.delete(place)
      this.#texts.openAtOnce(type, place)
    } else if (!this.#done.has(place)) {
      // More text without a name is more text, not late text.
      if (place !== UNNAMED) this.#done.add(place)
      this.#texts.finish(type, place, item)
    }
  }

  #writeCalls(changes: readonly ToolCallChange[]): void {
    if (changes.length > 0) this.#hasItems = true
    for (const change of changes) {
      if (change.change === 'completed') this.#calls.completed += 1
      if (change.change === 'failed') this.#calls.failed += 1
      writeCallChange(this.#writer, change)
    }
  }

  #close(end: ResponseEnd | ResponseFailure): void {
    if (end.kind === 'ended') this.#finish(end)
    else this.#fail(end)
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
    this.#places.clear()
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

function malformed(reason: string): Pick<ResponseFailure, 'error' | 'usage'> {
  return { error: { code: 'UPSTREAM_MALFORMED', message: reason }, usage: undefined }
}
