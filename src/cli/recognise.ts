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

/**
 * Holds the first events of a source until one of them shows that the input is what the source reads.
 */
export class Recognition {
  readonly #from: SourceName
  #head: Uint8Array[] = []
  #headBytes = 0
  #held: StreamEvent[] | undefined = []
  hasUnknown = false

  constructor(from: SourceName) {
    this.#from = from
  }

  /** Keeps the bytes that are about to be read. */
  note(chunk: Uint8Array): void {
    if (this.#held === undefined || this.#headBytes >= HEAD_BYTES) return
    this.#head.push(chunk.subarray(0, HEAD_BYTES - this.#headBytes))
    this.#headBytes += chunk.length
  }

  /** The events that may be passed on. */
  take(events: readonly StreamEvent[]): readonly StreamEvent[] {
    if (this.#held === undefined) return events
    this.#held.push(...events)
    return events.some(({ type }) => !MEANINGLESS.has(type)) ? this.release() : []
  }

  /** Whether the beginning of the input is read, and means nothing so far. */
  get isUndecided(): boolean {
    return this.#held !== undefined && this.#headBytes >= HEAD_BYTES
  }

  /** Throws if the input is not what it was said to be. One with a fault is refused elsewhere unless it has a name. */
  check(hasFault: boolean): void {
    if (this.#held === undefined || this.#headBytes === 0) return
    const head = Buffer.concat(this.#head)
    const name = guessSource(head, this.#from)
    if (name !== undefined && !(RESPONSES.has(name) && RESPONSES.has(this.#from))) {
      throw new UsageError(`this looks like ${TITLES[name]}; use --from ${name}`)
    }
    if (name !== undefined || hasFault || !this.#isMeaningless(head)) return
    throw new UsageError(`the input has no event of ${TITLES[this.#from]}`)
  }

  /** Returns what is held; nothing is held from now on. */
  release(): readonly StreamEvent[] {
    const events = this.#held ?? []
    this.#held = undefined
    this.#head = []
    return events
  }

  #isMeaningless(head: Buffer): boolean {
    const codes = (this.#held ?? []).flatMap(({ payload }) =>
      payload.type === 'response_error' ? [payload.error.code] : [],
    )
    if (codes.includes('UPSTREAM_MALFORMED')) return true
    if (codes.some((code) => code !== 'UPSTREAM_TRUNCATED')) return false
    return this.hasUnknown || !STREAM_START.test(head.toString('latin1'))
  }
}

/** The format that reads most of the beginning of an input; undefined if none reads anything. */
function guessSource(head: Uint8Array, except: SourceName): SourceName | undefined {
  let best: { name: SourceName; score: number } | undefined
  for (const name of SOURCE_NAMES) {
    if (name === except) continue
    const score = scoreOf(name, head)
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
  const source: Source = createSource(name, { runId: 'r', threadId: 'h', now: () => 0, onUnknown })
  const events = [...source.feed(head), ...source.end()]
  const known = events.filter(({ type }) => !MEANINGLESS.has(type)).length
  const hasFailed = events.some(({ type }) => type === 'response_error')
  return known === 0 ? 0 : known - unknown - (hasFailed ? 1 : 0) + 1e-3
}
