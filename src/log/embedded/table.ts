import { crc32 } from 'node:zlib'
import type { Database, Key, RangeOptions } from 'lmdb'
import { TurnstreamError } from '../../protocol/errors.ts'

/** Of a text: eight hexadecimal digits before it. Of bytes: four bytes before them. */
const TEXT_SUM = 8
const BYTES_SUM = 4

/**
 * A table of an LMDB file whose values carry a CRC-32 of table, key and value: LMDB itself has no checksums, and
 * would return what a damaged page holds, or the value of another key. Reading such a value is STORE_CORRUPT.
 */
abstract class CheckedTable<Value extends string | Uint8Array> {
  readonly name: string
  readonly #db: Database<Value>
  readonly #seed: number

  constructor(name: string, db: Database<Value>) {
    this.name = name
    this.#db = db
    this.#seed = crc32(name)
  }

  protected abstract seal(value: Value, seed: number): Value
  /** Undefined if the value does not match its checksum. */
  protected abstract unseal(stored: Value, seed: number): Value | undefined

  get(key: Key): Value | undefined {
    try {
      const stored = this.#db.get(key)
      return stored === undefined ? undefined : this.#read(key, stored)
    } catch (error) {
      throw this.#unreadable(error)
    }
  }

  *getRange(options: RangeOptions): Generator<{ readonly key: Key; readonly value: Value }> {
    try {
      for (const { key, value } of this.#db.getRange(options)) {
        yield { key, value: this.#read(key, value) }
      }
    } catch (error) {
      throw this.#unreadable(error)
    }
  }

  *getKeys(options: RangeOptions): Generator<Key> {
    try {
      yield* this.#db.getKeys(options)
    } catch (error) {
      throw this.#unreadable(error)
    }
  }

  getKeysCount(options: RangeOptions = {}): number {
    return this.#db.getKeysCount(options)
  }

  getStats(): object {
    return this.#db.getStats()
  }

  /** The number of records as the table itself has it; those that can be reached may be fewer when it is damaged. */
  get entryCount(): number {
    return (this.#db.getStats() as { entryCount: number }).entryCount
  }

  /** For a batch, whose promise speaks for all of it. */
  put(key: Key, value: Value): void {
    void this.#db.put(key, this.seal(value, this.#seedOf(key)))
  }

  remove(key: Key): void {
    void this.#db.remove(key)
  }

  #read(key: Key, stored: Value): Value {
    const value = this.unseal(stored, this.#seedOf(key))
    if (value !== undefined) return value
    const detail = `record ${JSON.stringify(key)} of table ${this.name} is damaged`
    throw new TurnstreamError('STORE_CORRUPT', detail)
  }

  /** LMDB notices some damage itself, and fails to read a page. */
  #unreadable(error: unknown): TurnstreamError {
    if (error instanceof TurnstreamError) return error
    return new TurnstreamError('STORE_CORRUPT', `table ${this.name} cannot be read`, {
      cause: error,
    })
  }

  #seedOf(key: Key): number {
    return crc32(JSON.stringify(key), this.#seed)
  }
}

export class Table extends CheckedTable<string> {
  protected override seal(value: string, seed: number): string {
    return sumText(value, seed) + value
  }

  protected override unseal(stored: string, seed: number): string | undefined {
    const value = stored.slice(TEXT_SUM)
    return stored.slice(0, TEXT_SUM) === sumText(value, seed) ? value : undefined
  }
}

export class ByteTable extends CheckedTable<Uint8Array> {
  protected override seal(value: Uint8Array, seed: number): Uint8Array {
    const stored = Buffer.allocUnsafe(BYTES_SUM + value.length)
    stored.writeUInt32LE(crc32(value, seed))
    stored.set(value, BYTES_SUM)
    return stored
  }

  protected override unseal(stored: Uint8Array, seed: number): Uint8Array | undefined {
    if (stored.length < BYTES_SUM) return undefined
    const value = stored.subarray(BYTES_SUM)
    const sum = Buffer.from(stored.buffer, stored.byteOffset, BYTES_SUM).readUInt32LE()
    return sum === crc32(value, seed) ? value : undefined
  }
}

function sumText(value: string, seed: number): string {
  return crc32(value, seed).toString(16).padStart(TEXT_SUM, '0')
}
