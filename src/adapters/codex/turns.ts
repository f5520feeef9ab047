import { unreachable } from '../../protocol/errors.ts'
import type { ErrorObject, StreamEventPayload } from '../../protocol/stream-event.ts'
import { ResponseWriter } from '../response-writer.ts'
import type { TranslationContext } from '../translation.ts'
import { CodexCalls } from './calls.ts'
import type { CodexEvent, RawItem, Scope, TurnEnding } from './events.ts'
import type { CodexItem } from './items.ts'
import { isForeign, type Place, stepOf } from './place.ts'
import { SpokenItems } from './spoken-items.ts'
import { SpokenTexts } from './spoken-texts.ts'
import { TurnUsage } from './usage.ts'

/** Running out of tokens is an end, though codex calls it a failure. */
const INCOMPLETE = /^Incomplete response returned, reason: (max_output_tokens|content_filter)/

/** Follows the turns of a thread and writes each of them as a response. */
export class CodexTurns {
  readonly #writer: ResponseWriter
  readonly #calls: CodexCalls
  readonly #texts: SpokenTexts
  readonly #items = new SpokenItems()
  readonly #usage = new TurnUsage()
  #place: Place = { at: 'before' }
  #modelId: string | undefined
  /** What codex named as the reason, before the turn ended for it. */
  #error: ErrorObject | undefined

  constructor(context: TranslationContext) {
    this.#writer = new ResponseWriter(context)
    this.#calls = new CodexCalls(this.#writer, context)
    this.#texts = new SpokenTexts(this.#writer)
  }

  take(): readonly StreamEventPayload[] {
    return this.#writer.take()
  }

  add(event: CodexEvent, scope: Scope): void {
    if (event.type === 'model_known') this.#modelId = event.model
    else if (this.#move(event, scope)) this.#addToTurn(event)
    else this.#addOutside(event, scope)
  }

  /** A message that cannot be read ends the response; what is left of its turn is skipped. */
  breakOff(reason: string, scope: Scope): void {
    if (this.#place.at === 'before') this.#enter(scope)
    if (this.#place.at !== 'inside' || isForeign(this.#place.scope, scope)) return
    this.#fail({ code: 'UPSTREAM_MALFORMED', message: reason })
    this.#place = { at: 'skipping', scope: this.#place.scope }
  }

  /** What codex said was wrong counts for more than that it then fell silent. */
  end(fault: ErrorObject | undefined): void {
    if (this.#place.at === 'inside' && this.#error !== undefined) this.#fail(this.#error)
    this.#texts.settle()
    this.#writeUsage()
    this.#writer.endInput(fault)
    this.#place = { at: 'between' }
  }

  /** Answers whether the event belongs to the turn that we are in. */
  #move(event: CodexEvent, scope: Scope): boolean {
    switch (stepOf(this.#place, event, scope)) {
      case 'stay':
        return true
      case 'replace':
        this.end(undefined)
        this.#enter(scope)
        return true
      case 'enter':
        this.#enter(scope)
        return true
      case 'leave':
        this.#place = { at: 'between' }
        return false
      case 'ignore':
        return false
    }
  }

  #enter(scope: Scope): void {
    this.#place = { at: 'inside', scope }
    this.#error = undefined
    this.#calls.reset()
    this.#texts.reset()
    this.#usage.beginTurn(scope.threadId)
    this.#writer.start(this.#modelId)
  }

  #addOutside(event: CodexEvent, { threadId }: Scope): void {
    if (event.type === 'raw_item') this.#texts.expectTwins()
    if (event.type === 'thread_usage' && !this.#writer.isOpen) {
      this.#usage.addEarlierTotal(threadId, event.total)
    }
  }

  #addToTurn(told: CodexEvent): void {
    const event = this.#items.admit(told)
    if (event === undefined) return
    if (event.type !== 'raw_item') this.#texts.settle()
    switch (event.type) {
      case 'item_started':
        return this.#startItem(event.item)
      case 'item_completed':
        return this.#completeItem(event.item)
      case 'message_delta':
        return this.#texts.append(event.id ?? '', 'message', event.text)
      case 'reasoning_delta':
        return this.#texts.append(event.id ?? '', 'reasoning', event.text, event.part)
      case 'output_delta':
        return this.#calls.appendOutput(event.id, event.text)
      case 'output_bytes':
        return this.#calls.appendOutput(event.id, event.bytes)
      case 'raw_item':
        return this.#addRawItem(event.item)
      case 'response_completed':
        if (event.usage !== undefined) this.#usage.addResponse(event.usage)
        return this.#calls.noteResponseCompleted()
      case 'thread_usage':
        return this.#usage.addThreadTotal(event.total, event.last)
      case 'attempt_failed':
        return this.#giveUpAttempt()
      case 'error':
        this.#error = event.error
        return undefined
      case 'turn_ended':
        return this.#endTurn(event.ending, event.items)
      case 'turn_started':
      case 'model_known':
      case 'said':
      case 'reasoning_break':
        return undefined
      default:
        return unreachable(event)
    }
  }

  #startItem(item: CodexItem): void {
    if (item.kind === 'tool') {
      this.#calls.start(item)
      return
    }
    if (item.kind !== 'user') this.#calls.noteModelSpeaks()
    this.#texts.start(item.id ?? '', item)
  }

  #completeItem(item: CodexItem): void {
    if (item.kind === 'tool') {
      this.#calls.complete(item)
      return
    }
    if (item.kind !== 'user') this.#calls.noteModelSpeaks()
    this.#texts.complete(item.id ?? '', item)
  }

  #addRawItem(item: RawItem): void {
    if (item.kind === 'twin') {
      this.#texts.addTwin(item.id, item.metadata)
      return
    }
    this.#texts.settle()
    this.#texts.expectTwins()
    if (item.kind === 'call') this.#calls.addRawCall(item)
    else this.#calls.addRawOutput(item)
  }

  #giveUpAttempt(): void {
    this.#writer.cancelOpenItems('attempt_reset')
    this.#texts.closeAll()
    this.#calls.dropOpen()
  }

  #endTurn(ending: TurnEnding, items: readonly CodexItem[]): void {
    this.#place = { at: 'between' }
    for (const item of items) {
      if (item.kind !== 'tool' && !this.#texts.knows(item)) this.#completeItem(item)
    }
    this.#texts.settle()
    switch (ending.outcome) {
      case 'completed':
        if (this.#error !== undefined && !ending.isVerdict) this.#fail(this.#error)
        else this.#finish(this.#calls.settle(), ending.word)
        break
      case 'interrupted':
        this.#interrupt(ending.word)
        break
      case 'failed':
        this.#fail(ending.error ?? this.#error ?? { code: 'other', message: 'The turn failed' })
        break
    }
  }

  #finish(hasCallsLeft: boolean, word: string): void {
    this.#writeUsage()
    this.#writer.finish(hasCallsLeft ? 'tool_calls' : 'stop', word)
  }

  /**
   * Only the client can stop a turn. It does so with calls of its own open because it answers them in
   * another turn, and then the model had finished; otherwise it wanted no more of it.
   */
  #interrupt(word: string): void {
    if (this.#calls.leaveToClient()) {
      this.#writer.cancelOpenItems(word)
      this.#finish(true, word)
      return
    }
    this.#writeUsage()
    this.#writer.abort(word)
  }

  #fail(error: ErrorObject): void {
    this.#texts.settle()
    this.#writeUsage()
    const reason = INCOMPLETE.exec(error.message)?.[1]
    if (reason === undefined) this.#writer.fail(error)
    else this.#writer.finish(reason === 'content_filter' ? reason : 'length', reason)
  }

  #writeUsage(): void {
    const { usage } = this.#usage
    if (usage !== undefined) this.#writer.setUsage(usage)
  }
}
