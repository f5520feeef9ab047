import type { LogRecord, OutputRecord } from '@turnstream/core/internal/log/turn-log'
import { type TextRecord } from './append.ts'
import { equal, ok } from './assert.ts'
import { texts } from './reading.ts'
import { newestOf } from './texts.ts'

export function seqOf({ offset }: LogRecord): number {
  return Number(offset.split('-')[1])
}

/** Checks that a reader of `processed` saw no key go back and every key in its newest state. */
export function checkStates(
  seen: readonly OutputRecord[],
  written: readonly TextRecord[],
  after = 0,
): void {
  const latest = new Map<string, number>()
  for (const record of seen) {
    const { key } = record
    const seq = seqOf(record)
    ok(seq > (latest.get(key) ?? after), `${key} went back to ${record.offset}`)
    equal(record.data, written[seq - 1]?.data, `the text of ${record.offset}`)
    latest.set(key, seq)
  }
  const last = newestOf(seen).toSorted((a, b) => seqOf(a) - seqOf(b))
  const newest = newestOf(written)
    .filter(({ seq }) => seq > after)
    .toSorted((a, b) => a.seq - b.seq)
  equal(texts(last), texts(newest), 'the states at the end')
}
