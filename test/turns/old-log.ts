import { MemoryLog } from '../../src/log/memory-log.ts'
import type { AppendOptions, Lease, LogName, NewRecord } from '../../src/log/turn-log.ts'

/** Holds turns as earlier versions sealed them: without a Response. */
export class OldLog extends MemoryLog {
  override append(
    lease: Lease,
    name: LogName,
    records: readonly NewRecord[],
    { seal = false }: AppendOptions = {},
  ): Promise<string> {
    return super.append(lease, name, records, { seal })
  }
}
