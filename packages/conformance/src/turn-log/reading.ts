import type {
  LogRecord,
  OutputRecord,
  Page,
  PageOptions,
  Resync,
} from '@turnstream/core/internal/log/turn-log'
import type { TextRecord } from './append.ts'
import { equal, ok } from './assert.ts'
import { newestOf } from './texts.ts'

/** Returns everything that a listing yields, page by page. */
export async function pagesOf<T>(list: (options: PageOptions) => Promise<Page<T>>, limit: number) {
  const pages: T[][] = []
  let cursor: string | undefined
  do {
    const page = await list({ limit, ...(cursor !== undefined && { cursor }) })
    pages.push([...page.items])
    cursor = page.nextCursor
    ok(pages.length < 100, 'the pages have no end')
  } while (cursor !== undefined)
  return pages
}

export async function readAll<Each>(tail: AsyncIterable<Each>): Promise<Each[]> {
  const all: Each[] = []
  for await (const each of tail) all.push(each)
  return all
}

export async function takeFrom<Each>(tail: AsyncIterable<Each>, count: number): Promise<Each[]> {
  const taken: Each[] = []
  if (count === 0) return taken
  for await (const each of tail) {
    taken.push(each)
    if (taken.length === count) break
  }
  ok(taken.length === count, `a tail ended after ${taken.length} of ${count} records`)
  return taken
}

export function toRecords<Rec extends LogRecord>(all: readonly (Rec | Resync)[]): Rec[] {
  return all.map((each) => {
    ok(!('resync' in each), `a tail started over: ${JSON.stringify(each)}`)
    return each
  })
}

export async function nextOf<Rec extends LogRecord>(iterator: AsyncIterator<Rec | Resync>) {
  const { done, value } = await iterator.next()
  ok(done !== true, 'a tail ended while its log was open')
  const [record] = toRecords([value])
  ok(record !== undefined, 'a tail gave nothing')
  return record
}

export function offsets(all: readonly LogRecord[]): string[] {
  return all.map(({ offset }) => offset)
}

export function turnIdsOf(all: readonly { readonly turnId: string }[]): string[] {
  return all.map(({ turnId }) => turnId)
}

export function threadIdsOf(all: readonly { readonly threadId: string }[]): string[] {
  return all.map(({ threadId }) => threadId)
}

export function texts(all: readonly { readonly data: string }[]): string[] {
  return all.map(({ data }) => data)
}

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
