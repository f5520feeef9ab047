import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { ErrorObject, ItemType } from '../protocol/stream-event.ts'

/** An item of the turn. Its id is ours; its provider knows it by another. */
export interface TurnItem {
  readonly id: string
  /** Its place among the items of the turn. */
  readonly place: number
  /** What `item_start` said it is. */
  type?: ItemType
  /** How much of its text was streamed. */
  chars: number
  /** Whether it was started and has not ended. */
  isOpen: boolean
  /** Whether it has ended. */
  isOver: boolean
}

// A record of the log holds 64 million characters, and in JSON a character may take six.
const MAX_ITEM_CHARS = 10_000_000

/** The items of a turn: numbered through all rounds, and as many and as long as the caps allow. */
export class TurnItems {
  /** The cap that was passed, once one was. */
  excess: ErrorObject | undefined
  readonly #runId: string
  readonly #caps: TurnCaps
  readonly #whole: (OutputItem | undefined)[] = []
  /** The items of the round, by the ids of its provider, which may give them again in the next. */
  #known = new Map<string, TurnItem>()
  #chars = 0

  constructor(runId: string, caps: TurnCaps) {
    this.#runId = runId
    this.#caps = caps
  }

  /** Those that are finished, in the order in which they began. */
  get whole(): OutputItem[] {
    return this.#whole.filter((item) => item !== undefined)
  }

  beginRound(): void {
    this.#known = new Map()
  }

  /** The item that the provider means, if it has begun. */
  known(providersId: string): TurnItem | undefined {
    return this.#known.get(providersId)
  }

  /** The item that the provider means, or a new one; undefined when there are too many. */
  named(providersId: string): TurnItem | undefined {
    return this.#known.get(providersId) ?? this.#begin(providersId)
  }

  /** Opens an item. One of the same name before it has lost its name by that. */
  start(providersId: string, type: ItemType): TurnItem | undefined {
    const item = this.#begin(providersId)
    if (item === undefined) return undefined
    item.isOpen = true
    item.type = type
    return item
  }

  /** An item that no provider named. */
  add(): TurnItem | undefined {
    const { maxItems } = this.#caps
    if (this.#whole.length >= maxItems) {
      this.#exceed('TURN_ITEM_LIMIT', `${maxItems} items are allowed`)
      return undefined
    }
    const place = this.#whole.push(undefined) - 1
    return { id: `${this.#runId}:${place + 1}`, place, chars: 0, isOpen: false, isOver: false }
  }

  #begin(providersId: string): TurnItem | undefined {
    const item = this.add()
    if (item !== undefined) this.#known.set(providersId, item)
    return item
  }

  /** False when the turn has too much text with it. */
  grow(item: TurnItem, chars: number): boolean {
    item.chars += chars
    if (item.chars > MAX_ITEM_CHARS) {
      this.#exceed('TURN_TEXT_LIMIT', `${MAX_ITEM_CHARS} characters are allowed in an item`)
      return false
    }
    return this.spend(chars)
  }

  /** Counts what is stored besides text. False when the turn has too much with it. */
  spend(chars: number): boolean {
    this.#chars += chars
    const { maxTextChars } = this.#caps
    if (this.#chars <= maxTextChars) return true
    this.#exceed('TURN_TEXT_LIMIT', `${maxTextChars} characters are allowed`)
    return false
  }

  /** False when the turn has too much text with what was not streamed of it. */
  finish(item: TurnItem, final: OutputItem): boolean {
    const unstreamed = textOf(final).length - item.chars
    if (unstreamed > 0 && !this.grow(item, unstreamed)) return false
    this.#whole[item.place] = final
    this.end(item)
    return true
  }

  /** No more will come of it. */
  end(item: TurnItem): void {
    item.isOpen = false
    item.isOver = true
  }

  #exceed(code: ErrorCode, detail: string): void {
    this.excess ??= { code, message: new TurnstreamError(code, detail).message }
  }
}

function textOf(item: OutputItem): string {
  switch (item.type) {
    case 'message':
    case 'reasoning':
      return item.content
    case 'function_call':
      return item.arguments
    case 'function_call_output':
      return item.output
    case 'error':
    case 'cancelled':
      return ''
  }
}

/** What a turn may come to before it is stopped. */
export interface TurnCaps {
  /** 10 million unless given. */
  readonly maxTextChars: number
  /** 2,000 unless given. */
  readonly maxItems: number
  /** 30 minutes unless given. */
  readonly maxDurationMs: number
  /** 32 unless given. */
  readonly maxRounds: number
  /** The most that a provider is sent of the thread, input included: 8 MiB of JSON unless given. */
  readonly maxHistoryBytes: number
  /** The same in estimated tokens: 2 million unless given. */
  readonly maxHistoryTokens: number
}

const DEFAULT_CAPS: TurnCaps = {
  maxTextChars: 10_000_000,
  maxItems: 2000,
  maxDurationMs: 30 * 60 * 1000,
  maxRounds: 32,
  maxHistoryBytes: 8 * 1024 * 1024,
  maxHistoryTokens: 2_000_000,
}

/** Fills in the defaults; OPTION_INVALID for a cap under which no turn could run. */
export function resolveCaps(given: Partial<TurnCaps> = {}): TurnCaps {
  const caps = { ...DEFAULT_CAPS, ...given }
  for (const [name, value] of Object.entries(caps)) {
    if (!(value >= 1)) {
      throw new TurnstreamError('OPTION_INVALID', `${name} must be at least 1, not ${value}`)
    }
  }
  return caps
}
