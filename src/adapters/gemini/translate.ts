import type { ErrorObject, StreamEventPayload } from '../../protocol/stream-event.ts'
import { type Fields, isEmpty, toUsage } from '../fields.ts'
import { ResponseWriter } from '../response-writer.ts'
import type { Translation, TranslationContext } from '../translation.ts'
import { GeminiCalls } from './calls.ts'
import { GeminiTexts } from './texts.ts'
import {
  type DecodedEvent,
  decodeEvent,
  finishReasonOf,
  type GeminiEvent,
  type WireCounts,
  type WireFinish,
  type WirePart,
} from './wire.ts'

/** The stream of `POST /v1beta/models/{model}:streamGenerateContent`. */
export function translateGemini(context: TranslationContext): Translation {
  return new GeminiTranslation(context)
}

/** What is known of the current response. */
interface ResponseState {
  id: string | undefined
  texts: GeminiTexts
  calls: GeminiCalls
  counts: WireCounts
  /**
   * Why the model stopped. It is not the end: usage may follow, and older models say so in every
   * event. The vendor has no word for the end but the end of the input.
   */
  finish: WireFinish | undefined
}

class GeminiTranslation implements Translation {
  readonly #writer: ResponseWriter
  #response: ResponseState

  constructor(context: TranslationContext) {
    this.#writer = new ResponseWriter(context)
    this.#response = this.#newResponse(undefined)
  }

  /** Without `alt=sse` the vendor sends one list of all events. */
  translate(json: unknown): readonly StreamEventPayload[] {
    for (const event of Array.isArray(json) ? json : [json]) this.#take(decodeEvent(event))
    return this.#writer.take()
  }

  end(fault?: ErrorObject): readonly StreamEventPayload[] {
    this.#close(fault)
    return this.#writer.take()
  }

  #take(event: DecodedEvent): void {
    switch (event.kind) {
      case 'event':
        return this.#takeEvent(event)
      case 'failed':
        if (this.#writer.hasEnded) return
        this.#writer.start()
        this.#addCounts(event.counts)
        return this.#fail(event.error)
      case 'malformed':
        // Once the vendor has said why it stopped, the answer is whole without what follows.
        if (this.#response.finish !== undefined) return
        return this.#failMalformed(event.reason)
      case 'unknown':
        return this.#writer.reportUnknown(event.type)
    }
  }

  #takeEvent(event: GeminiEvent): void {
    if (this.#beginsAnother(event)) {
      if (this.#writer.isOpen) this.#close()
      this.#response = this.#newResponse(event.responseId)
      this.#writer.start(event.model)
    }
    if (this.#writer.hasEnded) return
    this.#writer.start(event.model)
    this.#response.id ??= event.responseId
    this.#addCounts(event.counts)
    for (const part of event.parts) this.#takePart(part)
    this.#response.texts.addSources(event.sources)
    this.#response.finish = event.finish ?? this.#response.finish
  }

  /** After the end of a response, or its finish reason: whether the event is of the next one. */
  #beginsAnother({ responseId, parts, finish }: GeminiEvent): boolean {
    const isOver = this.#writer.hasEnded || this.#response.finish !== undefined
    const hasContent = parts.length > 0 || finish !== undefined
    return isOver && hasContent && responseId !== undefined && responseId !== this.#response.id
  }

  #takePart(part: WirePart): void {
    if (this.#writer.hasEnded) return
    const { texts, calls } = this.#response
    if (part.kind === 'text') return texts.add(part)
    if (part.kind === 'attachment') return texts.addAttachment(part.part)
    if (part.kind === 'unknown') return this.#writer.reportUnknown(part.type)
    texts.close()
    if (part.kind === 'code') return calls.addCode(part)
    if (part.kind === 'code_result') return calls.addCodeResult(part)
    const fault = calls.add(part, part.signature)
    if (fault !== undefined) this.#failMalformed(`GenerateContentResponse: ${fault}`)
  }

  #addCounts(counts: WireCounts): void {
    const all: WireCounts = { ...this.#response.counts, ...counts }
    this.#response.counts = all
    if (isEmpty(all)) return
    const { prompt, candidates = 0, thoughts, cached, total } = all
    // The vendor does not count thoughts among what the model wrote.
    const completion = candidates + (thoughts ?? 0)
    this.#writer.setUsage(toUsage({ prompt, completion, total, cached, reasoning: thoughts }))
  }

  /** Nothing more comes of the response: it is whole when the vendor said why it ended. */
  #close(fault?: ErrorObject): void {
    const { texts, calls, finish } = this.#response
    if (!this.#writer.isOpen || finish === undefined) {
      calls.showOpen()
      this.#writer.endInput(fault)
      return
    }
    texts.finish()
    calls.finish()
    this.#writer.finish(finishReasonOf(finish, calls.hasCalls), finish.word)
  }

  #fail(error: ErrorObject): void {
    this.#response.calls.showOpen()
    this.#writer.fail(error)
  }

  #failMalformed(message: string): void {
    if (!this.#writer.hasEnded) this.#fail({ code: 'UPSTREAM_MALFORMED', message })
  }

  #newResponse(id: string | undefined): ResponseState {
    const writer = this.#writer
    const common = (): Fields => {
      const { id: responseId } = this.#response
      return responseId === undefined ? {} : { responseId }
    }
    const calls = new GeminiCalls(writer, common)
    return { id, texts: new GeminiTexts(writer, common), calls, counts: {}, finish: undefined }
  }
}
