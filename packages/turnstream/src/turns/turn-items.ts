import { textOf } from '@turnstream/core/internal/items/text'
import {
  type ErrorCode,
  optionInvalid,
  TurnstreamError,
} from '@turnstream/core/internal/protocol/errors'
import { outputItemId, outputItemIds } from '@turnstream/core/internal/protocol/item-ids'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type { ErrorObject, ItemType } from '@turnstream/core/internal/protocol/stream-event'

/** An item of the turn. Its id is ours; the provider may use another. */
export interface TurnItem {
  readonly id: string
  readonly place: number
  readonly type?: ItemType
}

// A log record holds 64 million characters, and JSON may need six per character.
const MAX_ITEM_CHARS = 10_000_000

/** The items of a turn, numbered across rounds and limited by the caps. */
export class TurnItems {
  /** The exceeded cap. What exceeded it is not part of the turn. */
  excess: ErrorObject | undefined
  readonly #runId: string
  readonly #caps: TurnCaps
  readonly #places: (OutputItem | undefined)[] = []
  /** Items of the current round by provider id. Providers may reuse ids in the next round. */
  #known = new Map<string, TurnItem>()
  #chars = 0

  constructor(runId: string, caps: TurnCaps) {
    this.#runId = runId
    this.#caps = caps
  }

  /** In the order in which they started, as they are sent back to the provider. */
  get finished(): OutputItem[] {
    return this.#places.filter((item) => item !== undefined)
  }

  /** Returns the ids of the items that the provider starts in this round. */
  beginRound(): () => string {
    this.#known = new Map()
    return outputItemIds(this.#runId, this.#places.length)
  }

  known(providersId: string): TurnItem | undefined {
    return this.#known.get(providersId)
  }

  /** Adds an item; undefined when there are too many. An earlier item with the same provider id loses it. */
  add(providersId?: string, type?: ItemType): TurnItem | undefined {
    const { maxTurnItems } = this.#caps
    if (this.#places.length >= maxTurnItems) {
      this.#exceed('TURN_ITEM_LIMIT', `the limit is ${maxTurnItems} items`)
      return undefined
    }
    const place = this.#places.push(undefined) - 1
    const item = { id: outputItemId(this.#runId, place + 1), place, ...(type && { type }) }
    if (providersId !== undefined) this.#known.set(providersId, item)
    return item
  }

  /** Adds to an item that has `before` characters. Returns false when this exceeds the text cap. */
  grow(before: number, chars: number): boolean {
    if (before + chars > MAX_ITEM_CHARS) {
      this.#exceed('TURN_TEXT_LIMIT', `the limit is ${MAX_ITEM_CHARS} characters per item`)
      return false
    }
    return this.spend(chars)
  }

  /** Counts what is stored besides text. Returns false when it exceeds the cap. */
  spend(chars: number): boolean {
    this.#chars += chars
    const { maxTurnChars } = this.#caps
    if (this.#chars <= maxTurnChars) return true
    this.#exceed('TURN_TEXT_LIMIT', `the limit is ${maxTurnChars} characters`)
    return false
  }

  /** Returns false when the text exceeds the cap, of which `streamed` characters are counted. */
  finish(item: TurnItem, final: OutputItem, streamed = 0): boolean {
    const unstreamed = textOf(final).length - streamed
    if (unstreamed > 0 && !this.grow(streamed, unstreamed)) return false
    this.#places[item.place] = final
    return true
  }

  #exceed(code: ErrorCode, detail: string): void {
    this.excess ??= { code, message: new TurnstreamError(code, detail).message }
  }
}

/** Limits of a turn. */
export interface TurnCaps {
  /** Default 10 million. */
  readonly maxTurnChars: number
  /** Default 2,000. */
  readonly maxTurnItems: number
  /** Default 30 minutes. */
  readonly maxTurnTimeMs: number
  /** Maximum rounds of calls to server tools. Default 32. */
  readonly maxTurnRounds: number
  /** Maximum server tools that run at a time. Default 8. */
  readonly maxParallelTools: number
  /** How long a call waits for approval. Default 10 minutes. */
  readonly maxApprovalTimeMs: number
  /** Maximum bytes of thread and input that a provider is sent, as JSON. Default 32 MiB. */
  readonly maxHistoryBytes: number
  /** The same in estimated tokens. Default 2 million. */
  readonly maxHistoryTokens: number
}

const DEFAULT_CAPS = {
  maxTurnChars: 10_000_000,
  maxTurnItems: 2000,
  maxTurnTimeMs: 30 * 60 * 1000,
  maxTurnRounds: 32,
  maxParallelTools: 8,
  maxApprovalTimeMs: 10 * 60 * 1000,
  maxHistoryBytes: 32 * 1024 * 1024,
  maxHistoryTokens: 2_000_000,
} satisfies TurnCaps

/** Applies the defaults. OPTION_INVALID for a cap under which no turn could run. */
export function resolveCaps(given: Partial<TurnCaps> = {}): TurnCaps {
  return resolveLimits(DEFAULT_CAPS, given)
}

/** Applies the defaults. OPTION_INVALID for a limit below 1. Other fields are ignored. */
export function resolveLimits<Limits extends { readonly [Name in keyof Limits]: number }>(
  defaults: Limits,
  given: Partial<Limits>,
): Limits {
  const limits = { ...defaults }
  for (const name of Object.keys(defaults) as (keyof Limits & string)[]) {
    const value = given[name] ?? defaults[name]
    if (!(value >= 1)) throw optionInvalid(`${name} must be at least 1, not ${value}`)
    limits[name] = value
  }
  return limits
}
