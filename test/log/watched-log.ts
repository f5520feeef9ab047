import { LogWriter, type LogWriterOptions } from '../../src/log/log-writer.ts'
import { MemoryLog } from '../../src/log/memory-log.ts'
import type {
  AppendOptions,
  Lease,
  LogName,
  LogRecord,
  NewRecord,
  TurnLog,
} from '../../src/log/turn-log.ts'
import { type ErrorCode, TurnstreamError } from '../../src/protocol/errors.ts'
import { type FakeClock, fakeClock } from '../../src/testing/index.ts'
import { delta } from '../../src/testing/turn-log/texts.ts'

interface Append {
  name: LogName
  records: readonly NewRecord[]
  seal: boolean
}

/** Runs before or after an append; `call` is its number, from 0. */
type Fault = (append: Append, call: number) => Promise<void> | void

/** A log in memory of which every append can be watched, held back and made to fail. */
class WatchedLog extends MemoryLog {
  readonly appends: Append[] = []
  before: Fault = () => {}
  after: Fault = () => {}

  override async append(
    lease: Lease,
    name: LogName,
    records: readonly NewRecord[],
    options: AppendOptions = {},
  ): Promise<string> {
    const { seal = false } = options
    const append = { name, records: records.slice(), seal }
    const call = this.appends.push(append) - 1
    await this.before(append, call)
    const offset = await super.append(lease, name, records, options)
    await this.after(append, call)
    return offset
  }

  get sizes(): number[] {
    return this.appends.map(({ records }) => records.length)
  }

  /** Keeps the appends waiting until it is called. */
  holdAppends(): () => void {
    let open = () => {}
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    this.before = () => gate
    return open
  }
}

export interface Written {
  log: WatchedLog
  lease: Lease
  clock: FakeClock
  writerOf(name?: LogName, options?: LogWriterOptions): LogWriter
}

/** A turn that is to be written. */
export async function newWritten(): Promise<Written> {
  const log = new WatchedLog()
  const clock = fakeClock()
  const lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'me' }, 1_000_000)
  return {
    log,
    lease,
    clock,
    writerOf: (name = 'events', options = {}) =>
      new LogWriter(log, lease, name, { clock, ...options }),
  }
}

export function writeDeltas(writer: LogWriter, first: number, last: number): Promise<string>[] {
  return Array.from({ length: last - first + 1 }, (_, index) =>
    writer.write(delta('turn', first + index)),
  )
}

export async function readEvents(log: TurnLog, count: number): Promise<LogRecord[]> {
  const records: LogRecord[] = []
  for await (const each of log.tail('turn', 'events', '0-0', new AbortController().signal)) {
    if ('resync' in each) throw new Error(each.resync)
    if (records.push(each) === count) break
  }
  return records
}

export function failing(code: ErrorCode, times: number): Fault {
  return (_append, call) => {
    if (call < times) throw new TurnstreamError(code, `call ${call}`)
  }
}

export async function codesOf(writes: readonly Promise<unknown>[]): Promise<string[]> {
  const settled = await Promise.allSettled(writes)
  return settled.map((each) =>
    each.status === 'fulfilled' ? 'written' : (each.reason as TurnstreamError).code,
  )
}
