import { hasCode } from '../../protocol/errors.ts'
import type { LogSource } from '../tail.ts'
import type { LogName, LogRecord, Records, TurnSnapshot } from '../turn-log.ts'
import type { Calls } from './calls.ts'
import { EventsFeed } from './events-feed.ts'
import type { Hints } from './hints.ts'
import type { RedisKeys } from './keys.ts'
import { ProcessedFeed } from './processed-feed.ts'

type AnyFeed = EventsFeed | ProcessedFeed

interface FeedContext {
  readonly keys: RedisKeys
  readonly calls: Calls
  readonly hints: Hints
  readonly onError: (error: unknown) => void
}

interface Shared {
  readonly feed: AnyFeed
  readonly opened: Promise<void>
  readers: number
  unfollow: (() => void) | undefined
}

/** The logs that are read in this process: each once, for as long as it has readers. */
export class Feeds {
  readonly #context: FeedContext
  readonly #shared = new Map<string, Shared>()
  readonly #processed = new Map<string, ProcessedFeed>()

  constructor(context: FeedContext) {
    this.#context = context
  }

  /** One log for one reader. */
  async open<Name extends LogName>(
    ids: { turnId: string; runId: string },
    log: Name,
  ): Promise<LogSource<Records[Name]>> {
    const key = `${log} ${ids.turnId}`
    const known = this.#shared.get(key)
    const isKnown = known !== undefined && !known.feed.hasEnded
    const shared = isKnown ? known : this.#add(key, ids, log)
    shared.readers += 1
    try {
      await shared.opened
      // A reader may have seen elsewhere what this process has not: more of the log, or another turn of its
      // id. All who come while it is looked for share the look.
      if (isKnown) await shared.feed.advance()
    } catch (error) {
      this.#leave(key, shared)
      if (isKnown && shared.feed.hasEnded && !hasCode(error, 'STORE_CLOSED'))
        return this.open(ids, log)
      throw error
    }
    const source = shared.feed.source(() => this.#leave(key, shared))
    return source as LogSource<LogRecord> as LogSource<Records[Name]>
  }

  async snapshot(turnId: string): Promise<TurnSnapshot> {
    const { keys, calls, onError } = this.#context
    const shared = this.#processed.get(turnId)
    if (shared !== undefined && !shared.hasEnded) {
      try {
        return await shared.snapshot()
      } catch (error) {
        // There may be another turn of the same id.
        if (!hasCode(error, 'TURN_DELETED')) throw error
      }
    }
    return new ProcessedFeed(turnId, keys.turn(turnId), calls, onError).snapshot()
  }

  close(): void {
    for (const { feed } of this.#shared.values()) feed.end('STORE_CLOSED')
  }

  #add(key: string, { turnId, runId }: { turnId: string; runId: string }, log: LogName): Shared {
    const { keys, calls, onError } = this.#context
    let feed: AnyFeed
    if (log === 'events') {
      feed = new EventsFeed(turnId, keys.run(runId), calls, onError)
    } else {
      const processed = new ProcessedFeed(turnId, keys.turn(turnId), calls, onError)
      this.#processed.set(turnId, processed)
      feed = processed
    }
    const shared: Shared = {
      feed,
      readers: 0,
      unfollow: undefined,
      opened: this.#follow(key, feed),
    }
    // Every reader hears of it himself.
    shared.opened.catch(() => {})
    this.#shared.set(key, shared)
    return shared
  }

  /** A sealed log never changes, so that only deletion could be heard of; that is seen by who reads on. */
  async #follow(key: string, feed: AnyFeed): Promise<void> {
    await feed.advance()
    if (!feed.isLive) return
    const unfollow = await this.#context.hints.follow(feed.channel, feed.look)
    const shared = this.#shared.get(key)
    if (shared === undefined || shared.feed !== feed) return unfollow()
    shared.unfollow = unfollow
    // What came before the hints did.
    await feed.advance()
  }

  #leave(key: string, shared: Shared): void {
    shared.readers -= 1
    if (shared.readers > 0) return
    if (this.#shared.get(key) === shared) this.#shared.delete(key)
    if (this.#processed.get(shared.feed.turnId) === shared.feed) {
      this.#processed.delete(shared.feed.turnId)
    }
    shared.unfollow?.()
  }
}
