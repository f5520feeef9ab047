import { systemClock } from '@turnstream/core/internal/async/clock'
import { appendCases } from './turn-log/append-cases.ts'
import { cancelCases } from './turn-log/cancel-cases.ts'
import { concurrencyCases } from './turn-log/concurrency-cases.ts'
import { contentCases } from './turn-log/content-cases.ts'
import { deletionCases } from './turn-log/deletion-cases.ts'
import { type Cases, Given, type TurnLogUnderTest } from './turn-log/given.ts'
import { tenantRecordCases, turnKeyCases } from './turn-log/keyed-record-cases.ts'
import { leaseCases } from './turn-log/lease-cases.ts'
import { lifecycleCases } from './turn-log/lifecycle-cases.ts'
import { listingCases } from './turn-log/listing-cases.ts'
import { processedCases } from './turn-log/processed-cases.ts'
import { recordCases } from './turn-log/record-cases.ts'
import { recreationCases } from './turn-log/recreation-cases.ts'
import { replacementCases } from './turn-log/replacement-cases.ts'
import { responseCases } from './turn-log/response-cases.ts'
import { tailCases } from './turn-log/tail-cases.ts'
import { tenantCases } from './turn-log/tenant-cases.ts'
import { tenantSecretCases } from './turn-log/tenant-secret-cases.ts'
import { tenantStoreCases } from './turn-log/tenant-store-cases.ts'
import { writerCases } from './turn-log/writer-cases.ts'

export type { TurnLogUnderTest }

/** What the suite needs of a test runner. Vitest, Jest, Mocha and Node provide it. */
export interface SuiteRunner {
  describe(name: string, body: () => void): void
  test(name: string, body: () => Promise<void>): void
}

export interface SuiteOptions {
  /** When a waiting case counts as failed, in real time. Default 20 s. */
  readonly limitMs?: number
  /** Seed of the random cases. Default 1. A failure reports its seed. */
  readonly seed?: number
}

const GROUPS: Readonly<Record<string, Cases>> = {
  'creation and leases': leaseCases,
  'append and seal': appendCases,
  writers: writerCases,
  'tail and resume': tailCases,
  'the state of a turn': processedCases,
  cancel: cancelCases,
  'keyed records of a tenant': tenantRecordCases,
  'keyed records of a turn': turnKeyCases,
  'turn records': recordCases,
  'threads and listing': listingCases,
  'replaced turns': replacementCases,
  'the Response of a turn': responseCases,
  'deletion and retention': deletionCases,
  'content with a limit': contentCases,
  'a recreated turn': recreationCases,
  'what comes back and what stays': lifecycleCases,
  tenants: tenantCases,
  'a store of several tenants': tenantStoreCases,
  'what tenants do not see': tenantSecretCases,
  'at the same time': concurrencyCases,
}

// Longer than any case, in real time too.
const RETENTION_MS = 3_600_000
const LIMIT_MS = 20_000

/**
 * The guarantees of `TurnLog` as test cases, each with its own log. A backend is correct when it passes them.
 * `open` creates an empty log that keeps the logs of turns for `retentionMs` after their end. Cases for
 * several processes or restarts pass trivially for stores without `another` or `reopen`.
 */
export function describeTurnLog(
  name: string,
  open: (options: { retentionMs: number }) => Promise<TurnLogUnderTest>,
  runner: SuiteRunner,
  { limitMs = LIMIT_MS, seed = 1 }: SuiteOptions = {},
): void {
  for (const [group, cases] of Object.entries(GROUPS)) {
    runner.describe(`${name}: ${group}`, () => {
      for (const [name, run] of Object.entries(cases)) {
        runner.test(name, async () => {
          const under = await open({ retentionMs: run.retentionMs ?? RETENTION_MS })
          const given = new Given(under, seed)
          try {
            await within(limitMs, run(given, given.log))
          } finally {
            await given.dispose()
          }
        })
      }
    })
  }
}

/** Fails the case when a log loses what it waits for, so that the next case runs. */
function within(ms: number, work: Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = systemClock.after(ms, () => {
      reject(new Error(`after ${ms} ms the case still waits for something that did not happen`))
    })
    work.finally(cancel).then(resolve, reject)
  })
}
