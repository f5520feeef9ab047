import { checkNote, checkNoteKeys, MAX_NOTES } from '../notes.ts'
import type { RedisClient } from './client.ts'
import type { RedisKeys } from './keys.ts'
import * as scripts from './scripts/note.ts'

/** The notes of one tenant. Those of a key are in one slot; Redis expires them. */
export class Notes {
  readonly #keys: RedisKeys
  readonly #client: RedisClient
  /** How long a call may be retried. */
  readonly #retriedMs: number

  constructor(keys: RedisKeys, client: RedisClient, unavailableAfterMs: number) {
    this.#keys = keys
    this.#client = client
    // The last attempt starts within the limit and may arrive later.
    this.#retriedMs = 2 * unavailableAfterMs
  }

  async add(key: string, value: string, ttlMs: number): Promise<void> {
    checkNote(key, value, ttlMs)
    const { notes, call } = this.#keys.note(key, crypto.randomUUID())
    const args = [value, ttlMs, MAX_NOTES, this.#retriedMs]
    await this.#client.run(scripts.ADD_NOTE, [notes, call], args)
  }

  /** Sent together: the client pipelines the calls to each node. */
  async read(keys: readonly string[]): Promise<(string | undefined)[]> {
    checkNoteKeys(keys)
    return await Promise.all(
      keys.map(async (key) => {
        const { notes } = this.#keys.note(key, '')
        return toValue(await this.#client.run(scripts.READ_NOTE, [notes], []))
      }),
    )
  }

  async take(key: string): Promise<string | undefined> {
    checkNoteKeys([key])
    const { notes, call } = this.#keys.note(key, crypto.randomUUID())
    return toValue(await this.#client.run(scripts.TAKE_NOTE, [notes, call], [this.#retriedMs]))
  }
}

function toValue(reply: unknown): string | undefined {
  return typeof reply === 'string' ? reply : undefined
}
