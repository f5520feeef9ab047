import { fstatSync, readSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { corrupt } from '../rules.ts'

/*
 * The pages of an LMDB file (data format 2). A page starts with its number, the transaction that wrote it, flags, and
 * the bounds of the free space between node offsets and nodes. Offsets count from the end of this header. A node has
 * four 16-bit numbers, then its key and data. Numbers are in native order, which is little-endian on every platform
 * lmdb is built for.
 */
const PAGE_HEADER = 24
const TRANSACTION_AT = 8
const FLAGS_AT = 18
const LOWER_AT = 20
const UPPER_AT = 22
const OVERFLOW_COUNT_AT = 20
const BRANCH = 1
const LEAF = 2
const OVERFLOW = 4
const KINDS = 15

const NODE_HEADER = 8
const NODE_FLAGS_AT = 4
const KEY_SIZE_AT = 6
/** The data is in overflow pages; the node has number, transaction and count of these. */
const IN_OVERFLOW = 1
const OVERFLOW_REF = 24
/** The data describes a table. */
const IS_TABLE = 2

/** Keys are numbers in native order. Only the free list has these. */
const NUMBER_KEYS = 8
const DESCRIPTION = 48
/** An empty tree has no root. */
export const NO_ROOT = 0xffffffffffffffffn
/** More levels than a file of any size needs. */
const MAX_DEPTH = 32

/** A B-tree of the file: a table, the list of tables, or the free list. */
export interface Tree {
  readonly name: string
  readonly hasNumberKeys: boolean
  readonly depth: number
  readonly entries: bigint
  readonly root: bigint
}

/** Reads a tree from its 48-byte description. */
export function parseTree(bytes: Buffer, at: number, name: string): Tree {
  return {
    name,
    hasNumberKeys: (bytes.readUInt16LE(at + 4) & NUMBER_KEYS) !== 0,
    depth: bytes.readUInt16LE(at + 6),
    entries: bytes.readBigUInt64LE(at + 32),
    root: bytes.readBigUInt64LE(at + 40),
  }
}

export interface Newest {
  readonly pageSize: number
  readonly transaction: bigint
  readonly freeList: Tree
  readonly tables: Tree
}

/**
 * Verifies the B-trees of the selected tables without LMDB, which a damaged page can crash. Every page must be in its
 * place, each tree must have as many records as it says, and their keys must be in order. Values are not read.
 */
export async function checkPages(
  file: string,
  newest: Newest,
  isSelected: (table: string) => boolean,
): Promise<void> {
  await withFile(file, 'r', async ({ fd }) => {
    const walk = new PageWalk(file, fd, newest)
    for (const _ of walk.checkAll(isSelected)) if (isSliceOver()) await nextSlice()
  })
}

export async function withFile<T>(
  path: string,
  flags: string,
  use: (handle: FileHandle) => Promise<T>,
) {
  const handle = await open(path, flags)
  try {
    return await use(handle)
  } finally {
    await handle.close()
  }
}

class PageWalk {
  readonly #file: string
  readonly #fd: number
  readonly #newest: Newest
  readonly #pageCount: number
  /** One per level of a tree. */
  readonly #pages: Buffer[] = []
  #pagesRead = 0
  #tree: Tree
  #entries = 0
  readonly #found: Tree[] = []
  /** Holds the key before, from `#from` to `#end`; undefined before the first. */
  #before: Buffer | undefined
  #from = 0
  #end = 0
  /** Whether the key before leads to a page, whose first key may equal it. */
  #isLeading = false

  constructor(file: string, fd: number, newest: Newest) {
    this.#file = file
    this.#fd = fd
    this.#newest = newest
    this.#tree = newest.tables
    this.#pageCount = Math.floor(fstatSync(fd).size / newest.pageSize)
  }

  *checkAll(isSelected: (table: string) => boolean): Generator<void> {
    const { tables, freeList, transaction } = this.#newest
    yield* this.#check(tables)
    // Every transaction changes the list of tables.
    const isNewest = this.#pages[0]?.readBigUInt64LE(TRANSACTION_AT) === transaction
    if (tables.root !== NO_ROOT && !isNewest) throw this.#damaged(Number(tables.root))
    yield* this.#check(freeList)
    for (const tree of this.#found.splice(0)) if (isSelected(tree.name)) yield* this.#check(tree)
  }

  *#check(tree: Tree): Generator<void> {
    this.#tree = tree
    this.#before = undefined
    this.#entries = 0
    const { name, root, depth, entries } = tree
    if (root !== NO_ROOT) {
      if (depth === 0 || depth > MAX_DEPTH) throw this.#damaged(Number(root))
      yield* this.#visit(Number(root), depth)
    }
    if (this.#entries !== Number(entries)) {
      throw this.#corrupt(`table ${name} has ${this.#entries} of ${entries} records`)
    }
  }

  *#visit(number: number, levels: number): Generator<void> {
    if (levels === 1) {
      this.#checkLeaf(number)
      yield
      return
    }
    const page = this.#read(number, this.#tree.depth - levels, BRANCH)
    const end = this.#nodesEnd(page, number)
    for (let at = PAGE_HEADER; at < end; at += 2) {
      const node = this.#nodeAt(page, at, number)
      // The first node has no key.
      if (at > PAGE_HEADER) this.#follow(page, node, number)
      this.#isLeading = true
      yield* this.#visit(page.readUIntLE(node, 6), levels - 1)
    }
  }

  /** Not a generator, which would be several times slower. */
  #checkLeaf(number: number): void {
    const page = this.#read(number, this.#tree.depth - 1, LEAF)
    const end = this.#nodesEnd(page, number)
    for (let at = PAGE_HEADER; at < end; at += 2) {
      const node = this.#nodeAt(page, at, number)
      this.#follow(page, node, number)
      this.#isLeading = false
      if (!this.#hasData(page, node, this.#end)) throw this.#damaged(number)
    }
    this.#entries += (end - PAGE_HEADER) / 2
    // The page is about to be overwritten.
    this.#before = Buffer.from(page.subarray(this.#from, this.#end))
    this.#from = 0
    this.#end = this.#before.length
  }

  /** The end of the node offsets of a page. */
  #nodesEnd(page: Buffer, number: number): number {
    const lower = page.readUInt16LE(LOWER_AT)
    const isPlausible = lower > 0 && lower % 2 === 0 && lower <= page.readUInt16LE(UPPER_AT)
    if (!isPlausible) throw this.#damaged(number)
    return PAGE_HEADER + lower
  }

  #nodeAt(page: Buffer, at: number, number: number): number {
    const offset = page.readUInt16LE(at)
    const node = PAGE_HEADER + offset
    const isInside = offset >= page.readUInt16LE(UPPER_AT) && node + NODE_HEADER <= page.length
    if (!isInside) throw this.#damaged(number)
    return node
  }

  /** Checks that the key of a node is in the page, and in order. */
  #follow(page: Buffer, node: number, number: number): void {
    const from = node + NODE_HEADER
    const end = from + page.readUInt16LE(node + KEY_SIZE_AT)
    if (end > page.length) throw this.#damaged(number)
    const order = this.#before === undefined ? -1 : this.#compare(this.#before, page, from, end)
    if (order > 0 || (order === 0 && !this.#isLeading)) throw this.#damaged(number)
    this.#before = page
    this.#from = from
    this.#end = end
  }

  #compare(before: Buffer, page: Buffer, from: number, end: number): number {
    if (!this.#tree.hasNumberKeys) return before.compare(page, from, end, this.#from, this.#end)
    if (this.#end - this.#from !== 8 || end - from !== 8) return 1
    const difference = page.readBigUInt64LE(from) - before.readBigUInt64LE(this.#from)
    return difference > 0n ? -1 : difference < 0n ? 1 : 0
  }

  /** Whether the data of a leaf's node is where the node says. */
  #hasData(page: Buffer, node: number, at: number): boolean {
    const size = page.readUInt32LE(node)
    switch (page.readUInt16LE(node + NODE_FLAGS_AT)) {
      case 0:
        return at + size <= page.length
      case IN_OVERFLOW:
        return at + OVERFLOW_REF <= page.length && this.#hasOverflow(page, at, size)
      case IS_TABLE: {
        const isTable = this.#tree === this.#newest.tables && size === DESCRIPTION
        if (!isTable || at + size > page.length) return false
        const name = page.toString('utf8', node + NODE_HEADER, at).replace(/\0$/, '')
        this.#found.push(parseTree(page, at, name))
        return true
      }
      default:
        return false
    }
  }

  #hasOverflow(leaf: Buffer, at: number, size: number): boolean {
    const first = Number(leaf.readBigUInt64LE(at))
    const count = Number(leaf.readBigUInt64LE(at + 16))
    if (first + count > this.#pageCount) throw this.#truncated()
    const page = this.#read(first, MAX_DEPTH, OVERFLOW)
    const isLarge = PAGE_HEADER + size <= count * this.#newest.pageSize
    return isLarge && page.readUInt32LE(OVERFLOW_COUNT_AT) === count
  }

  #read(number: number, level: number, kind: number): Buffer {
    const { pageSize } = this.#newest
    if (number >= this.#pageCount) throw this.#truncated()
    // A damaged branch may lead to a page twice.
    this.#pagesRead += 1
    if (this.#pagesRead > this.#pageCount) throw this.#damaged(number)
    const page = this.#pages[level] ?? Buffer.allocUnsafe(pageSize)
    this.#pages[level] = page
    readSync(this.#fd, page, 0, pageSize, number * pageSize)
    const isInPlace = page.readBigUInt64LE(0) === BigInt(number)
    if (!isInPlace || (page.readUInt16LE(FLAGS_AT) & KINDS) !== kind) throw this.#damaged(number)
    return page
  }

  #damaged(page: number): TurnstreamError {
    return this.#corrupt(`page ${page} of table ${this.#tree.name} is damaged`)
  }

  #truncated(): TurnstreamError {
    return this.#corrupt(`table ${this.#tree.name} refers to pages after the end of the file`)
  }

  #corrupt(detail: string): TurnstreamError {
    return corrupt(`${this.#file}: ${detail}`)
  }
}
