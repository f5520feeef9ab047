import { type AppendOptions, type TextRecord } from '../../../conformance/src/turn-log/append.ts'
import type { Lease, LogName } from '../../../core/src/log/turn-log.ts'
import { HookedLog } from '../log/hooked-log.ts'

/** Holds turns as earlier versions sealed them: without a Response. */
export class OldLog extends HookedLog {
  override append(
    lease: Lease,
    name: LogName,
    records: readonly TextRecord[],
    { seal = false }: AppendOptions = {},
  ): Promise<string> {
    return super.append(lease, name, records, { seal })
  }
}
