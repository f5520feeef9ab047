import type { Lease, LogName, TurnLog } from '../../../core/src/log/turn-log.ts'
import { type Append, AppendWriter, type HookedLog } from '../log/hooked-log.ts'

/** What a process meets that dies at a call: it never learns what became of it. */
export class Death extends Error {
  override readonly name = 'Death'
}

/**
 * The same log for a process that dies at its `at`-th call, either before the call reaches the store or
 * before its answer comes back. From then on every call fails.
 */
export function mortalLog(log: HookedLog, at: number, reaches: boolean): TurnLog {
  let calls = 0
  const call = (value: (...args: never[]) => unknown, args: unknown[]): unknown => {
    calls += 1
    if (calls > at || (calls === at && !reaches)) throw new Death()
    const result: unknown = Reflect.apply(value, log, args)
    if (calls < at) return result
    if (result instanceof Promise) return result.then(() => Promise.reject(new Death()))
    return dieAfterOne(result as AsyncIterable<unknown>)
  }
  return new Proxy(log, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (name !== 'open') return (...args: unknown[]) => call(value as () => unknown, args)
      return (lease: Lease, log: LogName, options: object) => {
        const append: Append = async (...args) =>
          (await call(
            (...all: Parameters<typeof target.append>) => target.append(...all),
            [lease, log, ...args],
          )) as string
        return new AppendWriter(lease, log, append, options, target.clock)
      }
    },
  })
}

/** A reader of a log dies between two records. */
async function* dieAfterOne(tail: AsyncIterable<unknown>): AsyncGenerator<unknown, void> {
  for await (const record of tail) {
    yield record
    throw new Death()
  }
}
