import type { ErrorObject, StreamEventPayload } from '../../protocol/stream-event.ts'
import { oncePerType } from '../once-per-type.ts'
import { translateResponseNotifications } from '../response-notifications/translate.ts'
import type { Translation, TranslationContext } from '../translation.ts'
import { CodexTurns } from './turns.ts'
import { type CodexMessage, decodeCodexMessage, type Grammar } from './wire.ts'

/**
 * The meaning of what a codex app-server writes. Of its three grammars the first that shows itself is
 * the one that counts: some versions speak two at once, and say everything twice.
 */
export function translateCodex(context: TranslationContext): Translation {
  return new CodexTranslation(context)
}

class CodexTranslation implements Translation {
  readonly #turns: CodexTurns
  readonly #responses: Translation
  readonly #reportUnknown: (type: string) => void
  #grammar: Grammar | undefined

  constructor(context: TranslationContext) {
    this.#reportUnknown = oncePerType(context.onUnknown)
    this.#turns = new CodexTurns(context)
    this.#responses = translateResponseNotifications({
      ...context,
      onUnknown: this.#reportUnknown,
    })
  }

  translate(event: unknown): readonly StreamEventPayload[] {
    const message = decodeCodexMessage(event, this.#grammar)
    switch (message.kind) {
      case 'nothing':
        return []
      case 'unknown':
        this.#reportUnknown(message.type)
        return []
      case 'response':
        return this.#isSpoken('response') ? this.#responses.translate(message.notification) : []
      case 'malformed':
      case 'event':
        return this.#addToTurns(message)
    }
  }

  end(fault?: ErrorObject): readonly StreamEventPayload[] {
    if (this.#grammar === 'response') return this.#responses.end(fault)
    this.#turns.end(fault)
    return this.#turns.take()
  }

  #addToTurns(
    message: CodexMessage & { kind: 'event' | 'malformed' },
  ): readonly StreamEventPayload[] {
    const { grammar, scope } = message
    // Which model answers is told by replies, which belong to no grammar.
    const isOfAll = message.kind === 'event' && message.event.type === 'model_known'
    if (!isOfAll && !this.#isSpoken(grammar)) return []
    if (message.kind === 'event') this.#turns.add(message.event, scope)
    else this.#turns.breakOff(message.reason, scope)
    return this.#turns.take()
  }

  #isSpoken(grammar: Grammar): boolean {
    this.#grammar ??= grammar
    return this.#grammar === grammar
  }
}
