/** Feeds vendor events to a translation, as the tests of all vendors do. */
import type { StreamEventPayload, Translation, TranslationContext } from '../../src/index.ts'

export const context: TranslationContext = {
  runId: 'run',
  turnId: 'turn',
  threadId: 'thread',
  providerId: 'provider',
  modelId: 'model',
  now: () => 0,
}

export type CreateTranslation = (context: TranslationContext) => Translation

/** All payloads of an input, its end included. */
export function translateAll(
  create: CreateTranslation,
  events: Iterable<unknown>,
  extra: Partial<TranslationContext> = {},
): StreamEventPayload[] {
  const translation = create({ ...context, ...extra })
  const payloads: StreamEventPayload[] = []
  for (const event of events) payloads.push(...translation.translate(event))
  payloads.push(...translation.end())
  return payloads
}
