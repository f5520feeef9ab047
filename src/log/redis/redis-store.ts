import type { Clock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { Batches } from './batches.ts'
import { Calls } from './calls.ts'
import type { RedisConnection } from './connection.ts'
import { storeError } from './failures.ts'
import { checkFormat } from './format.ts'
import { Hints } from './hints.ts'
import { RedisKeys } from './keys.ts'
import { LeaseIndex } from './lease-index.ts'
import { Retention } from './retention.ts'

interface StoreOptions {
  readonly prefix: string
  readonly retentionMs: number
  readonly unavailableAfterMs: number
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

/** What the logs of all tenants on a server have in common. */
export class RedisStore {
  readonly prefix: string
  readonly clock: Clock
  readonly onError: (error: unknown) => void
  readonly calls: Calls
  readonly batches: Batches
  readonly hints: Hints
  readonly leases: LeaseIndex
  readonly retention: Retention
  readonly #connection: RedisConnection
  #closed: Promise<void> | undefined

  constructor(connection: RedisConnection, options: StoreOptions) {
    const { prefix, retentionMs, clock, onError } = options
    this.#connection = connection
    this.prefix = prefix
    this.clock = clock
    this.onError = onError
    this.calls = new Calls(connection, options)
    this.batches = new Batches(this.calls, connection)
    this.hints = new Hints(connection, { clock, onError })
    this.retention = new Retention(retentionMs)
    this.leases = new LeaseIndex(new RedisKeys(prefix).leases, this.calls, this.retention)
  }

  /** STORE_VERSION if a newer turnstream has written to it; then the connection is closed. */
  async checkFormat(): Promise<void> {
    try {
      const { format } = new RedisKeys(this.prefix)
      await checkFormat(this.calls, format, this.retention.indexMs)
    } catch (error) {
      await this.#connection.close()
      throw error
    }
  }

  /** What the data takes in the memory of all masters, also what is not of this store. */
  async bytesKept(): Promise<number> {
    this.checkOpen()
    const infos = await this.#connection.sendToAll(['INFO', 'memory']).catch((error: unknown) => {
      throw storeError(error)
    })
    const bytes = infos.map((info) =>
      Number(/used_memory_dataset:(\d+)/.exec(String(info))?.[1] ?? 0),
    )
    return bytes.reduce((sum, each) => sum + each, 0)
  }

  checkOpen(): void {
    if (this.#closed !== undefined) throw new TurnstreamError('STORE_CLOSED', 'the log was closed')
    this.calls.checkOpen()
  }

  /** `settle` brings what the logs have under way to its end. It is called once. */
  close(settle: () => Promise<void>): Promise<void> {
    this.#closed ??= this.#close(settle)
    return this.#closed
  }

  async #close(settle: () => Promise<void>): Promise<void> {
    await settle()
    const calls = this.calls.close()
    this.hints.close()
    await calls
    await this.#connection.close()
  }
}
