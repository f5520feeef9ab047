import { unreachable } from '../../protocol/errors.ts'
import type { ErrorObject, StreamEventPayload } from '../../protocol/stream-event.ts'
import { NotificationTranslation } from '../response-notifications/read.ts'
import { type Translation, type TranslationContext, WriterTranslation } from '../translation.ts'
import { type CodexMessage, decodeCodexMessage, type Grammar } from './decode.ts'
import type { CodexEvent, CodexItem, MessageItem, RawItem, Scope, TurnEnding } from './events.ts'
import { CodexCalls } from './read-calls.ts'
import { MessageFilter, Messages } from './read-texts.ts'
import { TurnUsage } from './usage.ts'

/** Translates the output of a codex app-server by the first of its grammars to appear: some versions send two. */
export function translateCodex(context: TranslationContext): Translation {
  return new CodexTranslation(context)
}

/** Running out of tokens is an end, although codex calls it a failure. */
const INCOMPLETE =
  /(?:^|: )Incomplete response returned, reason: (max_output_tokens|content_filter)/

/** Follows the turns of a thread and writes each as a response. */
class CodexTranslation extends WriterTranslation {
  readonly #responses: Translation
  #calls = new CodexCalls(this.writer)
  readonly #texts = new Messages(this.writer)
  readonly #filter = new MessageFilter()
  readonly #usage = new TurnUsage()
  #grammar: Grammar | undefined
  /** Whether the grammar is settled. The start of a turn says nothing about the grammar of its content. */
  #isSettled = false
  #position: Position = { at: 'before' }
  #modelId: string | undefined
  /** The error codex reported before the turn ended. */
  #error: ErrorObject | undefined

  constructor(context: TranslationContext) {
    super(context)
    this.#responses = new NotificationTranslation(context, this.writer)
  }

  /** `response.*` notifications have their own translation. */
  override translate(event: unknown): readonly StreamEventPayload[] {
    const message = decodeCodexMessage(event, this.#grammar)
    if (message.kind === 'response') {
      return this.#isSpoken('response') ? this.#responses.translate(message.notification) : []
    }
    if (this.#grammar !== 'response' || message.kind !== 'event') return super.translate(message)
    const { event: ended, scope } = message
    return ended.type === 'turn_ended' ? this.#endResponse(ended.ending, scope) : []
  }

  /** The end of the turn is also that of `response.*` notifications without their own. */
  #endResponse(ending: TurnEnding, scope: Scope): readonly StreamEventPayload[] {
    const isOther = this.#position.at === 'inside' && isForeign(this.#position.scope, scope)
    if (isOther || !this.writer.isOpen) return []
    if (ending.outcome === 'completed') {
      return this.#responses.translate({ type: 'response.completed' })
    }
    if (ending.outcome === 'interrupted') return this.#responses.end()
    this.fail(ending.error ?? UNEXPLAINED)
    return this.writer.drain()
  }

  override end(fault?: ErrorObject): readonly StreamEventPayload[] {
    return this.#grammar === 'response' ? this.#responses.end(fault) : super.end(fault)
  }

  protected apply(message: Exclude<CodexMessage, { kind: 'response' }>): void {
    switch (message.kind) {
      case 'unknown':
        return this.writer.reportUnknown(message.type)
      case 'malformed':
        if (this.#isSpoken(message.grammar)) this.#breakOff(message.reason, message.scope)
        return
      case 'event':
        // Replies name the model, and belong to no grammar.
        if (message.event.type === 'model_known') this.#modelId = message.event.model
        else if (this.#isSpoken(message.grammar, message.event)) {
          this.#add(message.event, message.scope)
        }
        return
      case 'nothing':
    }
  }

  #isSpoken(grammar: Grammar, event?: CodexEvent): boolean {
    if (this.#grammar === undefined || (grammar === 'response' && !this.#isSettled)) {
      this.#grammar = grammar
    }
    if (this.#grammar !== grammar) return false
    this.#isSettled ||= event === undefined || !isPrelude(event)
    return true
  }

  #add(event: CodexEvent, scope: Scope): void {
    if (this.#move(event, scope)) this.#addToTurn(event)
    else this.#addOutside(event, scope)
  }

  /** A malformed message ends the response. The rest of its turn is skipped. */
  #breakOff(reason: string, scope: Scope): void {
    if (this.#position.at === 'before') this.#enter(scope)
    if (this.#position.at !== 'inside' || isForeign(this.#position.scope, scope)) return
    this.fail({ code: 'UPSTREAM_MALFORMED', message: reason })
    this.#position = { at: 'skipping', scope: this.#position.scope }
  }

  /** An error that codex reported takes precedence over a missing end. */
  protected override close(fault?: ErrorObject): void {
    if (this.#position.at === 'inside' && this.#error !== undefined) this.fail(this.#error)
    this.#texts.settle()
    this.#writeUsage()
    this.writer.endInput(fault)
    this.#position = { at: 'between' }
  }

  /** Returns whether the event belongs to the current turn. */
  #move(event: CodexEvent, scope: Scope): boolean {
    switch (stepOf(this.#position, event, scope)) {
      case 'stay':
        return true
      case 'replace':
        this.close()
        this.#enter(scope)
        return true
      case 'enter':
        this.#enter(scope)
        return true
      case 'leave':
        this.#position = { at: 'between' }
        return false
      case 'ignore':
        return false
    }
  }

  #enter(scope: Scope): void {
    this.#position = { at: 'inside', scope }
    this.#error = undefined
    this.#calls = new CodexCalls(this.writer)
    this.#texts.reset()
    this.#usage.beginTurn(scope.threadId)
    this.writer.start(this.#modelId)
  }

  #addOutside(event: CodexEvent, { threadId }: Scope): void {
    if (event.type === 'raw_item') this.#texts.expectTwins()
    if (event.type === 'thread_usage' && !this.writer.isOpen) {
      this.#usage.addEarlierTotal(threadId, event.total)
    }
  }

  #addToTurn(incoming: CodexEvent): void {
    const event = this.#filter.admit(incoming)
    if (event === undefined) return
    if (event.type !== 'raw_item') this.#texts.settle()
    switch (event.type) {
      case 'item_started':
        return this.#applyItem('start', event.item)
      case 'item_completed':
        return this.#applyItem('complete', event.item)
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
        return this.#abandonAttempt()
      case 'error':
        this.#error = event.error
        return undefined
      case 'turn_ended':
        return this.#endTurn(event.ending, event.items)
      case 'turn_started':
      case 'model_known':
      case 'text':
      case 'reasoning_break':
        return undefined
      default:
        return unreachable(event)
    }
  }

  #applyItem(step: 'start' | 'complete', item: CodexItem): void {
    if (item.kind === 'tool') return this.#calls[step](item)
    if (item.kind !== 'user') this.#calls.noteModelSpeaks()
    this.#texts[step](item.id ?? '', item)
  }

  #addRawItem(item: RawItem): void {
    if (item.kind === 'twin') return this.#texts.addTwin(item.id, item.metadata)
    this.#texts.settle()
    this.#texts.expectTwins()
    if (item.kind === 'call') this.#calls.addRawCall(item)
    else this.#calls.addRawOutput(item)
  }

  #abandonAttempt(): void {
    this.writer.cancelOpenItems('attempt_reset')
    this.#texts.closeAll()
    this.#calls.dropOpen()
  }

  #endTurn(ending: TurnEnding, items: readonly MessageItem[]): void {
    this.#position = { at: 'between' }
    for (const item of items) {
      if (!this.#texts.knows(item)) this.#applyItem('complete', item)
    }
    this.#texts.settle()
    switch (ending.outcome) {
      case 'completed':
        if (this.#error !== undefined && !ending.isVerdict) this.fail(this.#error)
        else this.#finish(this.#calls.settle(), ending.word)
        break
      case 'interrupted':
        this.#interrupt(ending.word)
        break
      case 'failed':
        this.fail(ending.error ?? this.#error ?? UNEXPLAINED)
        break
    }
  }

  #finish(hasCallsLeft: boolean, word: string): void {
    this.#writeUsage()
    this.writer.finish(hasCallsLeft ? 'tool_calls' : 'stop', word)
  }

  /**
   * Only the client can stop a turn. With open client calls it will answer them in another turn, so the model had
   * finished; otherwise the turn was cancelled.
   */
  #interrupt(word: string): void {
    if (this.#calls.leaveToClient()) {
      this.writer.cancelOpenItems(word)
      this.#finish(true, word)
      return
    }
    this.#writeUsage()
    this.writer.abort(word)
  }

  protected override fail(error: ErrorObject): void {
    this.#texts.settle()
    this.#writeUsage()
    const reason = INCOMPLETE.exec(error.message)?.[1]
    if (reason === undefined) this.writer.fail(error)
    else this.writer.finish(reason === 'content_filter' ? reason : 'length', reason)
  }

  #writeUsage(): void {
    const { usage } = this.#usage
    if (usage !== undefined) this.writer.setUsage(usage)
  }
}

const UNEXPLAINED: ErrorObject = { code: 'other', message: 'The turn failed' }

/** Whether an event may precede the content of a turn in any grammar. */
function isPrelude(event: CodexEvent): boolean {
  if (event.type === 'raw_item') return event.item.kind === 'twin'
  return event.type === 'turn_started' || event.type === 'thread_usage'
}

/** Position in the input. `skipping`: the response failed, but its turn has not ended. */
type Position = { at: 'before' | 'between' } | { at: 'inside' | 'skipping'; scope: Scope }

/** How an event changes the position, before anything else. */
type Step = 'ignore' | 'stay' | 'enter' | 'replace' | 'leave'

function stepOf(position: Position, event: CodexEvent, scope: Scope): Step {
  switch (position.at) {
    case 'before':
      return beginsFirst(event) ? 'enter' : 'ignore'
    case 'between':
      return event.type === 'turn_started' || beginsNext(event, scope) ? 'enter' : 'ignore'
    case 'inside':
      if (event.type === 'turn_started') return secondStart(position.scope, scope)
      return isForeign(position.scope, scope) ? 'ignore' : 'stay'
    case 'skipping':
      if (event.type === 'turn_started')
        return isForeignThread(position.scope, scope) ? 'ignore' : 'enter'
      return event.type === 'turn_ended' && !isForeign(position.scope, scope) ? 'leave' : 'ignore'
  }
}

/** Other turns, such as turns of sub-agents, share the connection. */
function isForeign(own: Scope, other: Scope): boolean {
  return isForeignThread(own, other) || isOther(own.turnId, other.turnId)
}

function isForeignThread(own: Scope, other: Scope): boolean {
  return isOther(own.threadId, other.threadId)
}

/** A thread runs one turn at a time: if another one starts, the end of this one was lost. */
function secondStart(own: Scope, other: Scope): Step {
  return isOther(own.turnId, other.turnId) && !isForeignThread(own, other) ? 'replace' : 'ignore'
}

/** Raw items also repeat the history, and counts include earlier turns. */
function beginsFirst({ type }: CodexEvent): boolean {
  return type !== 'raw_item' && type !== 'response_completed' && type !== 'thread_usage'
}

/** Turns with ids start by id; later events belong to an ended turn. */
function beginsNext({ type }: CodexEvent, { turnId }: Scope): boolean {
  if (turnId !== undefined) return false
  return type === 'message_delta' || type === 'reasoning_delta' || type === 'item_started'
}

function isOther(own: string | undefined, other: string | undefined): boolean {
  return own !== undefined && other !== undefined && own !== other
}
