import type { Calls } from './calls.ts'
import { texts } from './replies.ts'
import type { Retention } from './retention.ts'
import { DROP, DUE, INDEX } from './scripts/thread.ts'

export interface IndexedTurn {
  readonly turnId: string
  /** When its lease ends, as far as the index knows. */
  readonly score: string
}

/** The open turns by the end of their lease. It is only an index: what the turn itself says decides. */
export class LeaseIndex {
  readonly #key: string
  readonly #calls: Calls
  readonly #retention: Retention

  constructor(key: string, calls: Calls, retention: Retention) {
    this.#key = key
    this.#calls = calls
    this.#retention = retention
  }

  async put(turnId: string, until: number, leaseMs: number): Promise<void> {
    const keepMs = this.#retention.openMs(leaseMs)
    await this.#calls.run(INDEX, [this.#key], [until, turnId, keepMs])
  }

  /** Turns whose lease has ended, oldest first. */
  async due(skip: number, limit: number): Promise<IndexedTurn[]> {
    const reply = texts(await this.#calls.run(DUE, [this.#key], [skip, limit]))
    const turns: IndexedTurn[] = []
    for (let at = 0; at < reply.length; at += 2) {
      turns.push({ turnId: reply[at] ?? '', score: reply[at + 1] ?? '' })
    }
    return turns
  }

  async remove(turnId: string): Promise<void> {
    await this.#calls.command(this.#key, 'ZREM', this.#key, turnId)
  }

  /** Removes a turn, unless it was put in anew since it was seen. */
  async drop({ turnId, score }: IndexedTurn): Promise<void> {
    await this.#calls.run(DROP, [this.#key], [turnId, score])
  }
}
