import { open, stat } from 'node:fs/promises'
import { TurnstreamError } from '../../protocol/errors.ts'
import { FILE_MODE } from './directory.ts'

/*
 * The beginning of an LMDB file (data format 2): two pages which each say where everything is; the one
 * with the higher transaction holds. Numbers are in the order of the machine, which is little-endian on
 * all that lmdb is built for.
 */
const MAGIC_AT = 24
const MAGIC = 0xbeefc0de
const FORMAT_AT = 28
const FORMAT = 2
const PAGE_SIZE_AT = 48
const ROOTS_AT = [88, 136]
const TRANSACTION_AT = 152
const META_BYTES = 160
/** A tree without entries has no root. */
const NO_ROOT = 0xffffffffffffffffn
const PAGE_SIZES = new Set([4096, 8192, 16_384, 32_768, 65_536])

/** An option of `open` of lmdb that its types leave out. */
export const PRIVATE = { permissionsMode: FILE_MODE }

/**
 * Refuses with STORE_CORRUPT what LMDB could not open: lmdb 3.5.6 brings the process down where it should
 * throw. A file that is missing or empty is a store that is yet to be made. Answers with the number of its newest
 * transaction.
 */
export async function checkDataFile(file: string): Promise<number> {
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (found === undefined) return 0
  // To open a named pipe would never return.
  if (!found.isFile()) throw new TurnstreamError('STORE_CORRUPT', `${file} is not a file`)
  const { size } = found
  if (size === 0) return 0
  const handle = await open(file, 'r')
  try {
    const read = async (at: number) => {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(META_BYTES), 0, META_BYTES, at)
      return metaOf(bytesRead === META_BYTES ? buffer : undefined, file)
    }
    const first = await read(0)
    const second = await read(first.pageSize)
    const newest = second.transaction > first.transaction ? second : first
    for (const root of newest.roots) {
      const isThere = root === NO_ROOT || (root + 1n) * BigInt(first.pageSize) <= BigInt(size)
      if (!isThere) throw new TurnstreamError('STORE_CORRUPT', `${file} is cut off`)
    }
    return Number(newest.transaction)
  } finally {
    await handle.close()
  }
}

function metaOf(page: Buffer | undefined, file: string) {
  const isStore = page?.readUInt32LE(MAGIC_AT) === MAGIC && page.readUInt32LE(FORMAT_AT) === FORMAT
  const pageSize = page?.readUInt32LE(PAGE_SIZE_AT) ?? 0
  if (page === undefined || !isStore || !PAGE_SIZES.has(pageSize)) {
    throw new TurnstreamError('STORE_CORRUPT', `${file} is not a turnstream store`)
  }
  const roots = ROOTS_AT.map((at) => page.readBigUInt64LE(at))
  return { pageSize, roots, transaction: page.readBigUInt64LE(TRANSACTION_AT) }
}
