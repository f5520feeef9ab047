import type { Lease, LogName } from '../../src/log/turn-log.ts'
import { type AppendOptions, type TextRecord } from '../../src/testing/turn-log/append.ts'
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
