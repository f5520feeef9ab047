import {
  type AppendOptions,
  appendTo,
  type TextRecord,
} from '../../../conformance/src/turn-log/append.ts'
import { type Clock, systemClock } from '../../../core/src/async/clock.ts'
import type { Lease, LogName, NewRecord, WriterOptions } from '../../../core/src/log/turn-log.ts'
import type { Taken } from '../../src/log/writer.ts'
import { MemoryLog, type MemoryLogOptions } from '../../src/server.ts'
import { RelayWriter } from './relay-writer.ts'

export type Append = (records: readonly TextRecord[], options: AppendOptions) => Promise<string>

/** Writes by appends. */
export class AppendWriter<Name extends LogName> extends RelayWriter<Name> {
  constructor(
    lease: Lease,
    log: Name,
    append: Append,
    options?: WriterOptions<NewRecord<Name>>,
    clock?: Clock,
  ) {
    const store = ({ entries, first, seal }: Taken<Name>) => {
      const records = entries.map((entry, at) => recordOf(first + at, entry))
      const response = seal?.response
      const isSeal = seal !== undefined
      return append(records, { seal: isSeal, ...(response !== undefined && { response }) })
    }
    super(lease, log, options, store, clock)
  }
}

function recordOf(seq: number, entry: NewRecord): TextRecord {
  if (!('output' in entry)) return { seq, data: JSON.stringify(entry) }
  const { output, eventId, timestamp } = entry
  return { seq, data: JSON.stringify(output), eventId, timestamp }
}

/** A log in memory of which every write goes through `append`, which can be watched, delayed and made to fail. */
export class HookedLog extends MemoryLog {
  readonly clock: Clock

  constructor(options: MemoryLogOptions = {}) {
    super(options)
    this.clock = options.clock ?? systemClock
  }

  override open<Name extends LogName>(
    lease: Lease,
    name: Name,
    options?: WriterOptions<NewRecord<Name>>,
  ): AppendWriter<Name> {
    const append: Append = (records, more) => this.append(lease, name, records, more)
    return new AppendWriter(lease, name, append, options, this.clock)
  }

  append(
    lease: Lease,
    name: LogName,
    records: readonly TextRecord[],
    options: AppendOptions = {},
  ): Promise<string> {
    const open: MemoryLog['open'] = (...args) => super.open(...args)
    return appendTo({ open }, lease, name, records, options)
  }
}
