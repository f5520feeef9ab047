import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { TurnstreamError } from '../../protocol/errors.ts'
import { decodeChunk } from '../../protocol/event-codec.ts'
import { type EpochStart, epochOf } from '../offsets.ts'
import { StoredEvent } from '../records.ts'
import type { ByteTable } from './environment.ts'

/** Successive records of an event log. */
export interface RecordRun {
  readonly first: number
  readonly records: readonly StoredEvent[]
}

/** As much text as is kept for readers who come soon after each other. */
const CACHED_CHARS = 8 * 1024 * 1024

/**
 * The chunks of event logs, decoded. Those read last are kept, so that a crowd that joins a turn at the
 * same time is served from one copy, record by record the same object.
 */
export class Chunks {
  readonly #table: ByteTable
  // A Map gives its keys back in the order in which they were set: the one read longest ago is first.
  readonly #cache = new Map<string, RecordRun>()
  #chars = 0

  constructor(table: ByteTable) {
    this.#table = table
  }

  /** The chunk that holds a record; undefined when there is none. */
  read(number: number, seq: number, epochs: readonly EpochStart[]): RecordRun | undefined {
    const [key] = this.#table.getKeys({
      start: [number, seq],
      end: [number],
      reverse: true,
      limit: 1,
    })
    if (!Array.isArray(key)) return undefined
    const first = Number(key[1])
    const run = this.#cached(number, first) ?? this.#load(number, first, epochs)
    return seq < first + run.records.length ? run : undefined
  }

  keep(number: number, run: RecordRun): void {
    const key = cacheKey(number, run.first)
    this.#chars += charsOf(run) - charsOf(this.#cache.get(key))
    this.#cache.set(key, run)
    for (const [key, oldest] of this.#cache) {
      if (this.#chars <= CACHED_CHARS) return
      this.#cache.delete(key)
      this.#chars -= charsOf(oldest)
    }
  }

  #cached(number: number, first: number): RecordRun | undefined {
    const key = cacheKey(number, first)
    const run = this.#cache.get(key)
    if (run !== undefined) {
      this.#cache.delete(key)
      this.#cache.set(key, run)
    }
    return run
  }

  #load(number: number, first: number, epochs: readonly EpochStart[]): RecordRun {
    const bytes = this.#table.get([number, first])
    if (bytes === undefined) throw new TurnstreamError('STORE_CORRUPT', 'a chunk has vanished')
    const run = { first, records: decodeRecords(unpackLines(bytes), first, epochs) }
    this.keep(number, run)
    return run
  }
}

// A chunk is some 3 kB: with the window and the memory for a large text it would take twice as long.
const DEFLATE = { level: 3, windowBits: 12, memLevel: 5 }

/** The lines as they are stored: half of what they are as text, and so many fit into a page of LMDB. */
export function packLines(lines: readonly string[]): Uint8Array {
  return deflateRawSync(lines.join('\n'), DEFLATE)
}

export function unpackLines(bytes: Uint8Array): string[] {
  try {
    return inflateRawSync(bytes).toString().split('\n')
  } catch (error) {
    throw new TurnstreamError('STORE_CORRUPT', 'a chunk cannot be unpacked', { cause: error })
  }
}

/** A chunk never spans epochs. */
export function decodeRecords(
  lines: readonly string[],
  first: number,
  epochs: readonly EpochStart[],
): StoredEvent[] {
  const epoch = epochOf(epochs, first)
  return decodeChunk(lines.join('\n')).map((event, at) => new StoredEvent(epoch, first + at, event))
}

function cacheKey(number: number, first: number): string {
  return `${number}:${first}`
}

function charsOf(run: RecordRun | undefined): number {
  let chars = 0
  for (const { size } of run?.records ?? []) chars += size
  return chars
}
