import { isSliceOver, nextSlice } from '../async/time-slice.ts'
import type { Page, PageOptions } from '../log/turn-log.ts'

/** A page ends with the item that takes it past this size. */
const MAX_PAGE_BYTES = 8 * 1024 * 1024

type Bytes = Buffer<ArrayBuffer>

const COMMA = Buffer.from(',')

export interface PageEncoding<T, Options extends PageOptions> {
  /** What comes before the items, up to the bracket. */
  readonly head: string
  readonly list: (options: Options) => Promise<Page<T>>
  /** The parts of an item, or none to leave it out. */
  readonly encode: (item: T) => Bytes[] | Promise<Bytes[]>
}

/** Encodes a page: no more items than `options` allow, and no more than fit into a page. */
export async function encodePage<T, Options extends PageOptions>(
  options: Options,
  { head, list, encode }: PageEncoding<T, Options>,
): Promise<Bytes> {
  const page = await list(options)
  const parts: Bytes[] = []
  let { nextCursor } = page
  let size = 0
  for (const [index, item] of page.items.entries()) {
    if (isSliceOver()) await nextSlice()
    const encoded = await encode(item)
    if (encoded.length > 0 && parts.length > 0) parts.push(COMMA)
    for (const part of encoded) {
      parts.push(part)
      size += part.byteLength
    }
    const taken = index + 1
    if (size > MAX_PAGE_BYTES && taken < page.items.length) {
      // Only the store makes cursors.
      nextCursor = (await list({ ...options, limit: taken })).nextCursor
      break
    }
  }
  const next = nextCursor === undefined ? '' : `,"nextCursor":${JSON.stringify(nextCursor)}`
  return Buffer.concat([Buffer.from(head), ...parts, Buffer.from(`]${next}}`)])
}
