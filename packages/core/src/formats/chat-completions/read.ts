import type { ErrorObject, Usage } from '../../protocol/stream-event.ts'
import { DONE, type Fields, requireFields } from '../fields.ts'
import { toMetadata } from '../metadata.ts'
import { type Translation, type TranslationContext, WriterTranslation } from '../translation.ts'
import { type ContentChoice, type ContentChunk, decodeChunk, finishReasonOf } from './decode.ts'
import { ChatCalls } from './read-calls.ts'
import { ChatTexts } from './read-texts.ts'

export function translateOpenaiChat(context: TranslationContext): Translation {
  return new ChatTranslation(context)
}

interface ResponseState {
  texts: ChatTexts
  calls: ChatCalls
  /** The finish reason. Not the end: usage follows, and sometimes text. */
  finish: string | undefined
  id: string | undefined
  /** For servers that make up an id for every chunk. */
  hasManyIds: boolean
}

class ChatTranslation extends WriterTranslation {
  readonly #providerId: string
  #response = this.#newResponse()
  /** Whether `[DONE]` was the last event: the next chunk starts another response. */
  #isDone = false

  constructor(context: TranslationContext) {
    super(context)
    this.#providerId = context.providerId
  }

  protected apply(json: unknown): void {
    if (json === DONE) {
      if (this.writer.isOpen) this.close()
      this.#isDone = true
      return
    }
    const chunk = decodeChunk(requireFields(json, 'it'))
    if (chunk.kind === 'chunk') this.#applyChunk(chunk)
    else if (chunk.kind === 'failed') this.#applyError(chunk.error, chunk.usage)
    else this.writer.reportUnknown(chunk.type)
  }

  /** After the finish reason the answer is complete, whatever follows. */
  protected override failMalformed(reason: string): void {
    if (this.#response.finish !== undefined) return
    const message = `chat.completion.chunk: ${reason}`
    this.#applyError({ code: 'UPSTREAM_MALFORMED', message })
  }

  /** After the end of a response an error is ignored, unless another response is open. */
  #applyError(error: ErrorObject, usage?: Usage): void {
    if (this.writer.hasEnded && !this.#isDone) return
    this.#begin(undefined)
    if (usage !== undefined) this.writer.setUsage(usage)
    this.fail(error)
  }

  #applyChunk(chunk: ContentChunk): void {
    // Azure sends its prompt filter results before the answer.
    if (chunk.choice === undefined && chunk.usage === undefined) return
    if (this.#beginsAnother(chunk)) this.close()
    if (this.writer.hasEnded && !this.#followsEnd(chunk)) return
    this.#begin(chunk.model)
    const { id = chunk.id, hasManyIds } = this.#response
    this.#response.id = id
    this.#response.hasManyIds = hasManyIds || (chunk.id !== undefined && chunk.id !== id)
    if (chunk.usage !== undefined) this.writer.setUsage(chunk.usage)
    if (chunk.choice !== undefined) this.#applyChoice(chunk.choice)
    // Only usage: the last chunk before `[DONE]`, which not all servers send.
    const isLast = !chunk.hasChoices && chunk.usage !== undefined
    if (isLast && this.#response.finish !== undefined) this.close()
  }

  /** After the finish reason: whether the chunk belongs to the next response. */
  #beginsAnother({ id, choice }: ContentChunk): boolean {
    const { finish, hasManyIds } = this.#response
    if (!this.writer.isOpen || finish === undefined || hasManyIds) return false
    return choice?.hasRole === true && id !== undefined && id !== this.#response.id
  }

  /** After the end of a response: whether the chunk starts another one or is a leftover. */
  #followsEnd({ id, choice }: ContentChunk): boolean {
    if (choice === undefined) return false
    const hasContent = choice.texts.length > 0 || choice.calls.length > 0
    return this.#isDone || (hasContent && (id === undefined || id !== this.#response.id))
  }

  #begin(model: string | undefined): void {
    if (this.writer.isOpen) return
    this.#isDone = false
    this.#response = this.#newResponse()
    this.writer.start(model)
  }

  #applyChoice(choice: ContentChoice): void {
    const { texts, calls } = this.#response
    for (const name of choice.unknownFields) this.writer.reportUnknown(`delta.${name}`)
    texts.addReasoningDetails(choice.reasoningDetails)
    for (const piece of choice.texts) texts.add(piece)
    if (choice.extras !== undefined) texts.addExtras(choice.extras)
    if (choice.calls.length > 0) texts.close()
    for (const piece of choice.calls) calls.add(piece)
    this.#response.finish = choice.finish ?? this.#response.finish
  }

  /** Complete when the server has sent a finish reason. */
  protected override close(fault?: ErrorObject): void {
    const { texts, calls, finish } = this.#response
    if (!this.writer.isOpen || finish === undefined) {
      calls.showAll()
      this.writer.endInput(fault)
      return
    }
    texts.close()
    calls.finish()
    this.writer.finish(finishReasonOf(finish, !calls.isEmpty, texts.isRefusal), finish)
  }

  protected override fail(error: ErrorObject): void {
    this.#response.calls.showAll()
    this.writer.fail(error)
  }

  #newResponse(): ResponseState {
    const { writer } = this
    // Under the provider's id, not the protocol's: one server refuses what another requires.
    const metadata = (fields: Fields): Fields => {
      const { id } = this.#response
      return toMetadata(this.#providerId, {
        ...(id !== undefined && { completion_id: writer.uniqueResponseId(id) }),
        ...fields,
      })
    }
    return {
      texts: new ChatTexts(writer, metadata),
      calls: new ChatCalls(writer, metadata),
      finish: undefined,
      id: undefined,
      hasManyIds: false,
    }
  }
}
