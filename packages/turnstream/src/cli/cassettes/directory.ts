import { appendFile, mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { encodeHeader, type HeaderFields } from '@turnstream/core/internal/cassettes/cassette'
import { CASSETTE_LIMITS } from '@turnstream/core/internal/cassettes/decode'

export interface DirectoryOptions {
  readonly directory: string
  /** Maximum bytes of one cassette. Recording stops there. */
  readonly maxFileBytes: number
  /** Maximum bytes of all recordings. The oldest are deleted. */
  readonly maxTotalBytes: number
  /** Called when a file cannot be written or deleted. */
  readonly onError: (error: unknown) => void
}

/** Only files that a recorder named are ever deleted. */
const RECORDED = /^rec-[\w-]{1,120}\.cassette\.jsonl$/

/** Bounds the memory for names, and the time to read the directory. */
const MAX_FILES = 10_000

/** Reserved for the last line, which marks the recording as full. */
const END_BYTES = 128

/** The name of a recording in its directory. */
export function recordingName(id: string): string {
  return `rec-${id}.cassette.jsonl`
}

interface Entry {
  readonly name: string
  bytes: number
  /** Whether it is being written. */
  isOpen: boolean
  hasFailed: boolean
}

/** The recordings of a directory, within its limits. One process at a time may use it. */
export class CassetteDirectory {
  readonly #options: DirectoryOptions
  /** Oldest first. */
  readonly #entries = new Map<string, Entry>()
  #totalBytes = 0
  /** Writes and deletions, one after the other. */
  #work: Promise<void> = Promise.resolve()

  private constructor(options: DirectoryOptions) {
    this.#options = options
  }

  /** Creates the directory for its owner only, and finds the recordings in it. */
  static async open(options: DirectoryOptions): Promise<CassetteDirectory> {
    const { directory } = options
    await mkdir(directory, { recursive: true, mode: 0o700 })
    const found: { name: string; bytes: number; changedAt: number }[] = []
    for (const name of await readdir(directory)) {
      if (!RECORDED.test(name)) continue
      const { size, mtimeMs } = await stat(join(directory, name))
      found.push({ name, bytes: size, changedAt: mtimeMs })
    }
    const opened = new CassetteDirectory(options)
    for (const { name, bytes } of found.toSorted((a, b) => a.changedAt - b.changedAt)) {
      opened.#entries.set(name, { name, bytes, isOpen: false, hasFailed: false })
      opened.#totalBytes += bytes
    }
    opened.#makeRoom(0)
    return opened
  }

  /** Names of the recordings, oldest first. */
  names(): string[] {
    return [...this.#entries.keys()]
  }

  pathOf(name: string): string {
    return join(this.#options.directory, name)
  }

  /** Starts a recording and replaces one with the same name. Undefined if there is no room for it. */
  create(name: string, header: HeaderFields): CassetteFile | undefined {
    this.#forget(name)
    const text = encodeHeader(header)
    const entry: Entry = { name, bytes: 0, isOpen: true, hasFailed: false }
    if (!this.#add(entry, text.length)) return undefined
    this.#entries.set(name, entry)
    const path = this.pathOf(name)
    this.#write(entry, async () => {
      // A file that exists would keep its mode.
      await rm(path, { force: true })
      await writeFile(path, text, { mode: 0o600, flag: 'wx' })
    })
    const { maxFileBytes } = this.#options
    const limit = Math.min(maxFileBytes, CASSETTE_LIMITS.maxBytes)
    return new CassetteFile(path, {
      reserve: (bytes, isEnd) => {
        if (entry.hasFailed || this.#entries.get(name) !== entry) return false
        if (entry.bytes + bytes > (isEnd ? limit : limit - END_BYTES)) return false
        entry.isOpen = true
        return this.#add(entry, bytes)
      },
      append: (text) => this.#write(entry, () => appendFile(path, text)),
      close: () => {
        entry.isOpen = false
      },
    })
  }

  /** Deletes a recording. */
  remove(name: string): void {
    if (!this.#forget(name)) return
    this.#queue(() => rm(this.pathOf(name), { force: true }))
  }

  /** Resolves when everything is written. */
  async settled(): Promise<void> {
    await this.#work
  }

  #add(entry: Entry, bytes: number): boolean {
    if (!this.#makeRoom(bytes)) return false
    entry.bytes += bytes
    this.#totalBytes += bytes
    return true
  }

  /** Deletes the oldest recordings that are not being written. Returns whether that was enough. */
  #makeRoom(bytes: number): boolean {
    const { maxTotalBytes } = this.#options
    const isCrowded = (): boolean =>
      this.#totalBytes + bytes > maxTotalBytes || this.#entries.size > MAX_FILES
    for (const { name, isOpen } of this.#entries.values()) {
      if (!isCrowded()) break
      if (!isOpen) this.remove(name)
    }
    return !isCrowded()
  }

  #forget(name: string): boolean {
    this.#totalBytes -= this.#entries.get(name)?.bytes ?? 0
    return this.#entries.delete(name)
  }

  /** Writes to a recording, unless it was deleted meanwhile or has failed, which is reported once. */
  #write(entry: Entry, work: () => Promise<void>): void {
    this.#queue(async () => {
      if (entry.hasFailed || this.#entries.get(entry.name) !== entry) return
      try {
        await work()
      } catch (error) {
        entry.hasFailed = true
        throw error
      }
    })
  }

  #queue(work: () => Promise<void>): void {
    this.#work = this.#work.then(work).catch(this.#options.onError)
  }
}

interface FileDeps {
  /** Counts bytes. False if they exceed a limit. */
  readonly reserve: (bytes: number, isEnd: boolean) => boolean
  readonly append: (text: string) => void
  readonly close: () => void
}

/** A cassette that is being written. Lines wait in memory, at most as many bytes as the file may have. */
export class CassetteFile {
  readonly path: string
  readonly #deps: FileDeps
  #waiting: string[] = []

  constructor(path: string, deps: FileDeps) {
    this.path = path
    this.#deps = deps
  }

  /** Returns false when there is no room. `isEnd` is the last line of a call, for which some is left. */
  readonly write = (line: string, isEnd: boolean): boolean => {
    if (!this.#deps.reserve(Buffer.byteLength(line), isEnd)) return false
    this.#waiting.push(line)
    if (this.#waiting.length === 1) setImmediate(() => this.#flush())
    return true
  }

  close(): void {
    this.#flush()
    this.#deps.close()
  }

  #flush(): void {
    if (this.#waiting.length === 0) return
    const text = this.#waiting.join('')
    this.#waiting = []
    this.#deps.append(text)
  }
}
