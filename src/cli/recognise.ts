import type { StreamEvent } from '../protocol/stream-event.ts'
import { UsageError } from './command.ts'
import { createSource, SOURCE_NAMES, type Source, type SourceName } from './sources.ts'

const TITLES: Record<SourceName, string> = {
  'openai-responses': 'OpenAI Responses',
  'anthropic-messages': 'Anthropic Messages',
  'openai-chat': 'Chat Completions',
  gemini: 'Gemini',
  codex: 'codex',
  'response-notifications': 'response.* notifications',
  v2: 'raw events of turnstream',
}

/** How much of an input is kept to recognise it by. */
const HEAD_BYTES = 256 * 1024

/** A translation emits these whatever it reads. */
const MEANINGLESS = new Set(['response_start', 'response_error'])

/** Each reads the other: what one cannot read is broken in both. */
const RESPONSES: ReadonlySet<SourceName> = new Set(['openai-responses', 'response-notifications'])

/** What a stream of events begins with: an object of JSON, or a field or comment of SSE. */
const STREAM_START = /^[\s\uFEFF]*($|\{|:|(data|event|id|retry)(:|\n|\r|$))/

export interface RecognisedSource {
  readonly from: SourceName
  readonly source: Source
  /** Whether the source has seen an event of a type that it does not know. */
  readonly hasUnknown: () => boolean
}

/**
 * Yields the events of the input. Holds the first ones until one of them shows that the input is what the source
 * reads; UsageError when it is not.
 */
export async function* recognisedEvents(
  input: AsyncIterable<Uint8Array>,
  recognised: RecognisedSource,
): AsyncGenerator<StreamEvent> {
  const { source } = recognised
  const head: Uint8Array[] = []
  let headBytes = 0
  let held: StreamEvent[] | undefined = []

  function take(events: readonly StreamEvent[]): readonly StreamEvent[] {
    if (held === undefined) return events
    held.push(...events)
    return events.some(({ type }) => !MEANINGLESS.has(type)) ? release() : []
  }

  function release(): readonly StreamEvent[] {
    const events = held ?? []
    held = undefined
    return events
  }

  /** What is held, if the input is what it was said to be. A fault alone is not a turn. */
  function checkHeld(): readonly StreamEvent[] {
    if (held !== undefined && headBytes > 0) checkHead(Buffer.concat(head), held, recognised)
    return source.fault === undefined ? release() : []
  }

  for await (const chunk of input) {
    if (held !== undefined && headBytes < HEAD_BYTES) {
      head.push(chunk.subarray(0, HEAD_BYTES - headBytes))
      headBytes += chunk.length
    }
    yield* take(source.feed(chunk))
    if (source.fault !== undefined) break
    if (held !== undefined && headBytes >= HEAD_BYTES) yield* checkHeld()
  }
  yield* take(source.end())
  yield* checkHeld()
}

/** Throws if the input is not what it was said to be. One with a fault is refused elsewhere unless it has a name. */
function checkHead(
  head: Buffer,
  held: readonly StreamEvent[],
  { from, source, hasUnknown }: RecognisedSource,
): void {
  const name = guessSource(head, from)
  if (name !== undefined && !(RESPONSES.has(name) && RESPONSES.has(from))) {
    throw new UsageError(`this looks like ${TITLES[name]}; use --from ${name}`)
  }
  if (name !== undefined || source.fault !== undefined) return
  const codes = held.flatMap(({ payload }) =>
    payload.type === 'response_error' ? [payload.error.code] : [],
  )
  const isMalformed = codes.includes('UPSTREAM_MALFORMED')
  if (!isMalformed) {
    if (codes.some((code) => code !== 'UPSTREAM_TRUNCATED')) return
    if (!hasUnknown() && STREAM_START.test(head.toString('latin1'))) return
  }
  throw new UsageError(`the input has no event of ${TITLES[from]}`)
}

/** The format that reads most of the beginning of an input; undefined if none reads anything. */
function guessSource(head: Uint8Array, except: SourceName): SourceName | undefined {
  let best: { name: SourceName; score: number } | undefined
  for (const name of SOURCE_NAMES) {
    const score = name === except ? 0 : scoreOf(name, head)
    // codex reads what response.* notifications are, too: the narrower one counts.
    const isBetter = best === undefined || score > best.score
    if (score > 0 && (isBetter || (best?.name === 'codex' && score === best.score))) {
      best = { name, score }
    }
  }
  return best?.name
}

function scoreOf(name: SourceName, head: Uint8Array): number {
  let unknown = 0
  const onUnknown = () => {
    unknown += 1
  }
  const source = createSource(name, { runId: 'r', threadId: 'h', now: () => 0, onUnknown })
  const events = [...source.feed(head), ...source.end()]
  const known = events.filter(({ type }) => !MEANINGLESS.has(type)).length
  const hasFailed = events.some(({ type }) => type === 'response_error')
  return known === 0 ? 0 : known - unknown - (hasFailed ? 1 : 0) + 1e-3
}
