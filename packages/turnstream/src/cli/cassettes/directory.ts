import { appendFile, mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { encodeHeader, type HeaderFields } from '@turnstream/core/internal/cassettes/cassette'
import { CASSETTE_LIMITS } from '@turnstream/core/internal/cassettes/decode'

export interface DirectoryOptions {
  readonly directory: string
  readonly maxFileBytes: number
  /** Maximum bytes of all recordings. The oldest are deleted. */
  readonly maxTotalBytes: number
  readonly onError: (error: unknown) => void
}

/** Only files that a recorder named are ever deleted. */
const RECORDED = /^rec-[\w-]{1,120}\.cassette\.jsonl$/

/** Bounds the memory for names, and the time to read the directory. */
const MAX_FILES = 10_000

/** Reserved for the last line, which marks the recording as full. */
const END_BYTES = 128

export const recordingName = (id: string): string => `rec-${id}.cassette.jsonl`

/** The recordings of a directory, within its limits. One process at a time may use it. */
export class CassetteDirectory {
  readonly #options: DirectoryOptions
  readonly #files = new Map<string, CassetteFile>()
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
    const found: { name: string; size: number; mtimeMs: number }[] = []
    for (const name of await readdir(directory)) {
      if (!RECORDED.test(name)) continue
      const { size, mtimeMs } = await stat(join(directory, name))
      found.push({ name, size, mtimeMs })
    }
    const opened = new CassetteDirectory(options)
    for (const { name, size } of found.toSorted((a, b) => a.mtimeMs - b.mtimeMs)) {
      opened.#files.set(name, new CassetteFile(opened, name, size))
      opened.#totalBytes += size
    }
    opened.#makeRoom(0)
    return opened
  }

  names(): string[] {
    return [...this.#files.keys()]
  }

  pathOf(name: string): string {
    return join(this.#options.directory, name)
  }

  /** Starts a recording and replaces one with the same name. Undefined if there is no room for it. */
  create(name: string, header: HeaderFields): CassetteFile | undefined {
    this.#forget(name)
    const text = encodeHeader(header)
    const file = new CassetteFile(this, name)
    file.isOpen = true
    if (!this.#add(file, text.length)) return undefined
    this.#files.set(name, file)
    this.#write(file, async () => {
      // A file that exists would keep its mode.
      await rm(file.path, { force: true })
      await writeFile(file.path, text, { mode: 0o600, flag: 'wx' })
    })
    return file
  }

  /** Counts bytes of a recording. False if they exceed a limit. */
  reserve(file: CassetteFile, bytes: number, isEnd: boolean): boolean {
    const limit = Math.min(this.#options.maxFileBytes, CASSETTE_LIMITS.maxBytes)
    if (file.hasFailed || this.#files.get(file.name) !== file) return false
    if (file.bytes + bytes > (isEnd ? limit : limit - END_BYTES)) return false
    file.isOpen = true
    return this.#add(file, bytes)
  }

  append(file: CassetteFile, text: string): void {
    this.#write(file, () => appendFile(file.path, text))
  }

  remove(name: string): void {
    if (!this.#forget(name)) return
    this.#queue(() => rm(this.pathOf(name), { force: true }))
  }

  settled(): Promise<void> {
    return this.#work
  }

  #add(file: CassetteFile, bytes: number): boolean {
    if (!this.#makeRoom(bytes)) return false
    file.bytes += bytes
    this.#totalBytes += bytes
    return true
  }

  /** Deletes the oldest recordings that are not being written. Returns whether that was enough. */
  #makeRoom(bytes: number): boolean {
    const { maxTotalBytes } = this.#options
    const isCrowded = (): boolean =>
      this.#totalBytes + bytes > maxTotalBytes || this.#files.size > MAX_FILES
    for (const { name, isOpen } of this.#files.values()) {
      if (!isCrowded()) break
      if (!isOpen) this.remove(name)
    }
    return !isCrowded()
  }

  #forget(name: string): boolean {
    this.#totalBytes -= this.#files.get(name)?.bytes ?? 0
    return this.#files.delete(name)
  }

  /** Writes to a recording, unless it was deleted meanwhile or has failed, which is reported once. */
  #write(file: CassetteFile, work: () => Promise<void>): void {
    this.#queue(async () => {
      if (file.hasFailed || this.#files.get(file.name) !== file) return
      try {
        await work()
      } catch (error) {
        file.hasFailed = true
        throw error
      }
    })
  }

  #queue(work: () => Promise<void>): void {
    this.#work = this.#work.then(work).catch(this.#options.onError)
  }
}

/** A cassette. Lines wait in memory, at most as many bytes as the file may have. */
export class CassetteFile {
  readonly name: string
  readonly path: string
  bytes: number
  isOpen = false
  hasFailed = false
  readonly #directory: CassetteDirectory
  #waiting: string[] = []

  constructor(directory: CassetteDirectory, name: string, bytes = 0) {
    this.#directory = directory
    this.name = name
    this.path = directory.pathOf(name)
    this.bytes = bytes
  }

  /** Returns false when there is no room. `isEnd` is the last line of a call, for which some is left. */
  readonly write = (line: string, isEnd: boolean): boolean => {
    if (!this.#directory.reserve(this, Buffer.byteLength(line), isEnd)) return false
    this.#waiting.push(line)
    if (this.#waiting.length === 1) setImmediate(() => this.#flush())
    return true
  }

  close(): void {
    this.#flush()
    this.isOpen = false
  }

  #flush(): void {
    const text = this.#waiting.splice(0).join('')
    if (text !== '') this.#directory.append(this, text)
  }
}
