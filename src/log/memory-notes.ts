import { ExpiryQueue } from '../async/expiry-queue.ts'
import { checkNote, checkNoteKeys, lastExpiry, liveNotes, MAX_NOTES, type Note } from './notes.ts'

/** Keys checked per call, so that a million expired notes do not block the event loop. */
const SWEPT_PER_CALL = 100

/** A key of any tenant. It is in the queue once, until it has no notes left. */
interface NotedKey {
  readonly remove: () => void
  notes: readonly Note[]
}

/** The notes of one tenant. */
export class MemoryNotes {
  readonly #now: () => number
  readonly #keys = new Map<string, NotedKey>()
  /** Shared by all tenants. */
  readonly #queue: ExpiryQueue<NotedKey>

  constructor(now: () => number, queue = new ExpiryQueue<NotedKey>()) {
    this.#now = now
    this.#queue = queue
  }

  /** The notes of another tenant of the same store. */
  ofTenant(): MemoryNotes {
    return new MemoryNotes(this.#now, this.#queue)
  }

  add(key: string, value: string, ttlMs: number): void {
    checkNote(key, value, ttlMs)
    this.sweep()
    const now = this.#now()
    const until = now + ttlMs
    let noted = this.#keys.get(key)
    if (noted === undefined) {
      noted = { remove: () => this.#keys.delete(key), notes: [] }
      this.#keys.set(key, noted)
      this.#queue.add(noted, until)
    }
    noted.notes = [...liveNotes(noted.notes, now), [until, value] as const].slice(-MAX_NOTES)
  }

  read(keys: readonly string[]): (string | undefined)[] {
    checkNoteKeys(keys)
    this.sweep()
    return keys.map((key) => this.#live(key).at(-1)?.[1])
  }

  take(key: string): string | undefined {
    checkNoteKeys([key])
    this.sweep()
    const live = this.#live(key)
    const taken = live.pop()
    const noted = this.#keys.get(key)
    // An emptied key stays until its place in the queue is reached.
    if (noted !== undefined) noted.notes = live
    return taken?.[1]
  }

  get bytes(): number {
    let sum = 0
    for (const { notes } of this.#keys.values()) for (const [, value] of notes) sum += value.length
    return sum
  }

  /** Keys of all tenants, including emptied ones. */
  get queued(): number {
    return this.#queue.size
  }

  /** Removes some expired notes of all tenants. */
  sweep(): void {
    const now = this.#now()
    for (let count = 0; count < SWEPT_PER_CALL; count++) {
      const noted = this.#queue.takeExpired(now)
      if (noted === undefined) return
      noted.notes = liveNotes(noted.notes, now)
      if (noted.notes.length === 0) noted.remove()
      else this.#queue.add(noted, lastExpiry(noted.notes))
    }
  }

  #live(key: string): Note[] {
    return liveNotes(this.#keys.get(key)?.notes ?? [], this.#now())
  }
}
