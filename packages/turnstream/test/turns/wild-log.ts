import type { FakeClock } from '../../../conformance/src/index.ts'
import { type AppendOptions, type TextRecord } from '../../../conformance/src/turn-log/append.ts'
import { type ErrorCode, TurnstreamError } from '../../../core/src/index.ts'
import type { Lease, LogName } from '../../../core/src/log/turn-log.ts'
import { TURN_ID } from '../../../core/test/processor/events.ts'
import { HookedLog } from '../log/hooked-log.ts'

/** What becomes of a call: an error before it is carried out or after, or no answer in either case. */
export type Fault =
  | { readonly kind: 'refused' | 'unanswered'; readonly code: ErrorCode }
  | { readonly kind: 'silent' | 'stuck' }

export type Faulty = 'append' | 'renew' | 'cancelled' | 'addOnce' | 'watch'

/** A log in memory that fails as it is told, and remembers what was written to the turn `TURN_ID`. */
export class WildLog extends HookedLog {
  readonly kept: Record<LogName, string[]> = { events: [], processed: [] }
  readonly seals: Record<LogName, number> = { events: 0, processed: 0 }
  /** The epochs of all appends, in the order in which they were called. */
  readonly epochs: number[] = []
  /** How many approvals were granted. */
  approved = 0
  readonly faults = new Map<Faulty, Fault>()

  constructor(clock: FakeClock) {
    super({ clock, retentionMs: 1e12 })
    const records = this.keyedRecords
    const [addOnce, watch] = [records.addOnce.bind(records), records.watch.bind(records)]
    records.addOnce = (turnId, key, value) =>
      this.#faulty('addOnce', async () => {
        const result = await addOnce(turnId, key, value)
        if (result.isAdded && value.startsWith('{"approved":true')) this.approved += 1
        return result
      })
    records.watch = (...args) => this.#faulty('watch', () => watch(...args))
  }

  override append(
    lease: Lease,
    name: LogName,
    records: readonly TextRecord[],
    options: AppendOptions = {},
  ): Promise<string> {
    const { seal = false } = options
    if (lease.turnId !== TURN_ID) return super.append(lease, name, records, options)
    this.epochs.push(lease.epoch)
    return this.#faulty('append', async () => {
      const offset = await super.append(lease, name, records, options)
      const { length } = this.kept[name]
      const fresh = records.filter(({ seq }) => seq > length)
      this.kept[name].push(...fresh.map(({ data }) => data))
      if (seal && fresh.length > 0) this.seals[name] += 1
      return offset
    })
  }

  override renew(lease: Lease, leaseMs: number): Promise<void> {
    return this.#faulty('renew', () => super.renew(lease, leaseMs))
  }

  override cancelled(lease: Lease, signal: AbortSignal): Promise<string> {
    return this.#faulty('cancelled', () => super.cancelled(lease, signal))
  }

  async #faulty<T>(name: Faulty, carryOut: () => Promise<T>): Promise<T> {
    const fault = this.faults.get(name)
    switch (fault?.kind) {
      case undefined:
        return carryOut()
      case 'refused':
        throw new TurnstreamError(fault.code, name)
      case 'unanswered':
        await carryOut()
        throw new TurnstreamError(fault.code, name)
      case 'silent':
        await carryOut()
        return new Promise(() => {})
      case 'stuck':
        return new Promise(() => {})
    }
  }
}
