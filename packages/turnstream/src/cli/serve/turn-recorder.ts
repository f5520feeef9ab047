import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, monotonicNow } from '@turnstream/core/internal/async/clock'
import { decodeHeader, readCassette } from '@turnstream/core/internal/cassettes/decode'
import { CallRecorder } from '@turnstream/core/internal/cassettes/recorder'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { isTurnMissing } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT, MAX_CASSETTE_CALLS } from '@turnstream/core/internal/protocol/names'
import { logOf } from '../../log/tenants.ts'
import type { CallObserver, ObservedCall } from '../../providers/http-provider.ts'
import { CassetteDirectory, type CassetteFile, recordingName } from '../cassettes/directory.ts'
import { errorCode } from '../command.ts'
import type { Settings } from './settings.ts'

interface TurnRecorderOptions extends Pick<Settings, 'maxRecordedTurnBytes' | 'maxRecordedBytes'> {
  readonly directory: string
  /** Values to redact, besides the credentials of a call. */
  readonly secrets: readonly string[]
}

interface Deps {
  readonly log: TurnLog
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

interface Started extends Deps {
  readonly directory: CassetteDirectory
}

interface TurnIdentity {
  readonly tenant: string
  readonly turnId: string
}

interface RecordedTurn extends TurnIdentity {
  readonly file: CassetteFile
  readonly startedAt: number
  calls: number
}

/** How often to sweep recordings of deleted and expired turns. */
const SWEEP_MS = 60_000

/** The file of a turn. A hash: ids of clients may be longer than a file name. */
export function turnRecordingName(tenant: string, turnId: string): string {
  const hash = createHash('sha256').update(`${tenant}/${turnId}`).digest('hex')
  return recordingName(hash.slice(0, 40))
}

/** Records what providers send, one cassette per turn. A failure costs the recording, never the turn. */
export class TurnRecorder {
  readonly #options: TurnRecorderOptions
  readonly #turns = new Map<string, RecordedTurn>()
  #started: Started | undefined
  #isStopped = false
  #cancelSweep = (): void => {}

  constructor(options: TurnRecorderOptions) {
    this.#options = options
  }

  get directory(): string {
    return this.#options.directory
  }

  /** Nothing is recorded before. Rejects when the directory cannot be used. */
  async start(deps: Deps): Promise<void> {
    const { directory, maxRecordedTurnBytes, maxRecordedBytes } = this.#options
    const limits = { maxFileBytes: maxRecordedTurnBytes, maxTotalBytes: maxRecordedBytes }
    const options = { directory, ...limits, onError: deps.onError }
    this.#started = { ...deps, directory: await CassetteDirectory.open(options) }
    await this.#sweep(this.#started)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelSweep()
    await this.#started?.directory.settled()
  }

  /** The `observeCall` of providers. */
  readonly observe = (call: ObservedCall): CallObserver | undefined =>
    this.#guard(() => this.#observe(call))

  /** Runs work whose failure must not reach the turn. */
  #guard<T>(work: () => T): T | undefined {
    try {
      return work()
    } catch (error) {
      this.#started?.onError(error)
      return undefined
    }
  }

  #observe(call: ObservedCall): CallObserver | undefined {
    if (this.#started === undefined) return undefined
    const { clock } = this.#started
    const turn = this.#turnOf(call, this.#started)
    if (turn === undefined || turn.calls >= MAX_CASSETTE_CALLS) return undefined
    turn.calls += 1
    const recorder = new CallRecorder(call, {
      call: turn.calls,
      at: () => monotonicNow(clock) - turn.startedAt,
      write: turn.file.write,
      secrets: this.#options.secrets,
    })
    return {
      response: (status, headers) => this.#guard(() => recorder.response(status, headers)),
      chunk: (bytes) => this.#guard(() => recorder.chunk(bytes)),
      end: (reason) => {
        this.#guard(() => recorder.end(reason))
        // A later round opens it again.
        turn.file.close()
      },
    }
  }

  /** Deletes the recordings of turns that were deleted or have expired, now and then again. */
  async #sweep(started: Started): Promise<void> {
    const { directory, log, clock } = started
    try {
      for (const name of directory.names()) {
        const turn = this.#turns.get(name) ?? (await readIdentity(directory.pathOf(name)))
        if (turn === undefined || (await isGone(log, turn))) directory.remove(name)
      }
      const names = new Set(directory.names())
      for (const name of this.#turns.keys()) if (!names.has(name)) this.#turns.delete(name)
    } catch {
      // The store is unavailable, and reports that itself. The next sweep tries again.
    }
    if (this.#isStopped) return
    this.#cancelSweep = clock.after(SWEEP_MS, () => void this.#sweep(started))
  }

  /** The first call of a turn starts a new file: an earlier turn may have had the same id. */
  #turnOf(call: ObservedCall, { directory, clock }: Started) {
    const { tenant = DEFAULT_TENANT, turnId, threadId, round = 1, attempt } = call
    const name = turnRecordingName(tenant, turnId)
    if (round > 1 || attempt > 1) return this.#turns.get(name)
    const createdAt = clock.now()
    this.#turns.delete(name)
    const file = directory.create(name, { createdAt, turnId, threadId, tenant })
    if (file === undefined) return undefined
    const startedAt = monotonicNow(clock)
    const turn = { tenant, turnId, file, startedAt, calls: 0 }
    this.#turns.set(name, turn)
    return turn
  }
}

async function isGone(log: TurnLog, { tenant, turnId }: TurnIdentity): Promise<boolean> {
  try {
    const record = await logOf(log, tenant).getTurn(turnId)
    return record === undefined || record.expired
  } catch (error) {
    if (isTurnMissing(error)) return true
    throw error
  }
}

const HEADER_BYTES = 4096

async function readIdentity(path: string): Promise<TurnIdentity | undefined> {
  try {
    const file = await open(path)
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0)
      const [line = ''] = buffer.subarray(0, bytesRead).toString().split('\n')
      const { tenant, turnId } = decodeHeader(line)
      return tenant === undefined || turnId === undefined ? undefined : { tenant, turnId }
    } finally {
      await file.close()
    }
  } catch {
    return undefined // unreadable, so it is deleted
  }
}

export async function readTurnRecording(directory: string, { tenant, turnId }: TurnIdentity) {
  const path = join(directory, turnRecordingName(tenant, turnId))
  try {
    return await readCassette(createReadStream(path))
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}
