import type {
  KeyedRecords,
  Lease,
  LogName,
  LogWriter,
  NewRecord,
  TurnLog,
  WriterOptions,
} from '../../core/src/log/turn-log.ts'
import type { Taken } from '../../turnstream/src/log/writer.ts'
import { RelayWriter } from '../../turnstream/test/log/relay-writer.ts'

export type Break = (log: TurnLog) => Partial<TurnLog>

/** A log that does what another does, except for what is given. */
export function broken(log: TurnLog, change: Break): TurnLog {
  return withChanges(log, change(log))
}

function withChanges<T extends object>(object: T, changed: Partial<T>): T {
  return new Proxy(object, {
    get(target, name) {
      const source = Object.hasOwn(changed, name) ? changed : target
      const value: unknown = Reflect.get(source, name, source)
      return typeof value === 'function' ? value.bind(source) : value
    },
  })
}

/** A log whose keyed records do what they should, except for what is given. */
export function brokenRecords(change: (records: KeyedRecords) => Partial<KeyedRecords>): Break {
  return ({ keyedRecords }) => ({ keyedRecords: withChanges(keyedRecords, change(keyedRecords)) })
}

type AnyTaken = Taken<LogName>
type AnyEntry = NewRecord

/** Writes what a store is given to another log. */
type Store = (log: TurnLog, lease: Lease, name: LogName, taken: AnyTaken) => Promise<void>

export const storeIn: Store = async (log, lease, name, { entries, first, count, seal }) => {
  const options = { next: first, retryForMs: 0 }
  const writer = log.open(lease, name, options) as LogWriter<AnyEntry>
  const all = entries.slice(0, count)
  const last = seal === undefined ? undefined : all.pop()
  for (const entry of all) writer.write(entry)
  await (last === undefined ? writer.flush() : writer.seal(last, seal?.response))
  writer.close()
}

/** A log whose writers store in another way. */
export function brokenStore(store: Store): Break {
  return (log) => ({
    open: (lease: Lease, name: LogName, options?: WriterOptions<AnyEntry>) => {
      return new RelayWriter(lease, name, options, (taken) => store(log, lease, name, taken))
    },
  })
}

type AnyWriter = LogWriter<AnyEntry>

/** A log whose writers do what they should, except for what is given. */
export function brokenWriter(
  change: (writer: AnyWriter, options: WriterOptions<AnyEntry>) => Partial<AnyWriter>,
  changeOptions: (options: WriterOptions<AnyEntry>) => WriterOptions<AnyEntry> = (same) => same,
): Break {
  return (log) => ({
    open: (lease: Lease, name: LogName, options: WriterOptions<AnyEntry> = {}) => {
      const writer = log.open(lease, name, changeOptions(options)) as AnyWriter
      return withChanges(writer, change(writer, options))
    },
  })
}
