import type { ErrorObject, StreamEventPayload } from '../../protocol/stream-event.ts'
import { DONE, isEmpty, requireFields, toError, toUsage } from '../fields.ts'
import { toMetadata } from '../metadata.ts'
import { type Translation, type TranslationContext, WriterTranslation } from '../translation.ts'
import {
  countsOf,
  decodeEvent,
  finishReasonOf,
  type GeminiEvent,
  type ItemMetadata,
  NAMESPACE,
  unknownType,
  type WireCounts,
  type WireFinish,
  type WirePart,
} from './decode.ts'
import { GeminiCalls } from './read-calls.ts'
import { GeminiTexts } from './read-texts.ts'

const EVENT_NAME = 'GenerateContentResponse'

/** The stream of `POST /v1beta/models/{model}:streamGenerateContent`. */
export function translateGemini(context: TranslationContext): Translation {
  return new GeminiTranslation(context)
}

interface ResponseState {
  id: string | undefined
  texts: GeminiTexts
  calls: GeminiCalls
  counts: WireCounts
  /** Why the model stopped. Not the end: usage may follow, and older models repeat it in every event. */
  finish: WireFinish | undefined
}

class GeminiTranslation extends WriterTranslation {
  #response = this.#newResponse(undefined)

  /** Without `alt=sse` the vendor sends one list of all events. */
  override translate(json: unknown): readonly StreamEventPayload[] {
    if (!Array.isArray(json)) return super.translate(json)
    return json.flatMap((event: unknown) => super.translate(event))
  }

  protected apply(json: unknown): void {
    // Not part of this protocol, but some proxies send it last.
    if (json === DONE) return this.writer.reportUnknown(json)
    const fields = requireFields(json, 'it')
    const { error, usageMetadata } = fields
    if (error) return this.#applyError(toError(error, 'status', 'code'), countsOf(usageMetadata))
    const unknown = unknownType(fields)
    if (unknown !== undefined) return this.writer.reportUnknown(unknown)
    this.#applyEvent(decodeEvent(fields))
  }

  #applyError(error: ErrorObject, counts: WireCounts): void {
    if (this.writer.hasEnded) return
    this.writer.start()
    this.#addCounts(counts)
    this.fail(error)
  }

  #applyEvent(event: GeminiEvent): void {
    if (this.#beginsAnother(event)) {
      if (this.writer.isOpen) this.close()
      this.#response = this.#newResponse(event.responseId)
      this.writer.start(event.model)
    }
    if (this.writer.hasEnded) return
    this.writer.start(event.model)
    this.#response.id ??= event.responseId
    this.#addCounts(event.counts)
    for (const part of event.parts) this.#applyPart(part)
    this.#response.texts.addSources(event.sources)
    this.#response.finish = event.finish ?? this.#response.finish
  }

  /** After the end of a response, or its finish reason: whether the event starts the next one. */
  #beginsAnother({ responseId, parts, finish }: GeminiEvent): boolean {
    const isOver = this.writer.hasEnded || this.#response.finish !== undefined
    const hasContent = parts.length > 0 || finish !== undefined
    return isOver && hasContent && responseId !== undefined && responseId !== this.#response.id
  }

  #applyPart(part: WirePart): void {
    if (this.writer.hasEnded) return
    const { texts, calls } = this.#response
    if (part.kind === 'text') return texts.add(part)
    if (part.kind === 'attachment') return texts.addAttachment(part.part)
    if (part.kind === 'unknown') return this.writer.reportUnknown(part.type)
    texts.close()
    if (part.kind === 'code') return calls.addCode(part)
    if (part.kind === 'code_result') return calls.addCodeResult(part)
    const fault = calls.add(part, part.signature)
    if (fault !== undefined) super.failMalformed(`${EVENT_NAME}: ${fault}`, undefined)
  }

  #addCounts(counts: WireCounts): void {
    const all: WireCounts = { ...this.#response.counts, ...counts }
    this.#response.counts = all
    if (isEmpty(all)) return
    const { prompt, candidates = 0, thoughts, cached, total } = all
    // The vendor does not count thoughts as output.
    const completion = candidates + (thoughts ?? 0)
    this.writer.setUsage(toUsage({ prompt, completion, total, cached, reasoning: thoughts }))
  }

  /** Complete when the vendor has sent a finish reason. */
  protected override close(fault?: ErrorObject): void {
    const { texts, calls, finish } = this.#response
    if (!this.writer.isOpen || finish === undefined) {
      calls.showOpen()
      this.writer.endInput(fault)
      return
    }
    texts.finish()
    calls.finish()
    this.writer.finish(finishReasonOf(finish, calls.hasCalls), finish.word)
  }

  protected override fail(error: ErrorObject): void {
    this.#response.calls.showOpen()
    this.writer.fail(error)
  }

  /** After the finish reason the answer is complete, whatever follows. */
  protected override failMalformed(reason: string, event: unknown): void {
    if (this.#response.finish !== undefined || this.writer.hasEnded) return
    super.failMalformed(`${EVENT_NAME}: ${reason}`, event)
  }

  #newResponse(id: string | undefined): ResponseState {
    const metadata: ItemMetadata = (thoughtSignature, fields, isExecutedByProvider) => {
      const { id: responseId } = this.#response
      const common = {
        ...(responseId !== undefined && { responseId }),
        ...(thoughtSignature !== undefined && { thoughtSignature }),
      }
      return toMetadata(NAMESPACE, { ...common, ...fields }, isExecutedByProvider)
    }
    const texts = new GeminiTexts(this.writer, metadata)
    const calls = new GeminiCalls(this.writer, metadata)
    return { id, texts, calls, counts: {}, finish: undefined }
  }
}
