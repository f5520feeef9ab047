import { hasCode } from '../../protocol/errors.ts'
import type { Calls } from './calls.ts'
import type { Script } from './script.ts'

/** So much goes into one call at most: a script keeps the server from everything else while it runs. */
const MAX_APPENDS = 64
const MAX_CHARS = 256 * 1024

interface Append {
  readonly keys: readonly string[]
  readonly args: readonly string[]
  resolve(reply: unknown): void
  reject(error: unknown): void
}

interface Batch {
  readonly appends: Append[]
  chars: number
}

/**
 * Brings the appends that different turns make in the same turn of the event loop to the server in one
 * call. For a single record, calling a script costs more than what the script does. Each append is still
 * checked and answered on its own; a Cluster takes only one in a call, because their slots differ.
 */
export class Batches {
  readonly #calls: Calls
  readonly #maxAppends: number
  readonly #batches = new Map<Script, Batch>()

  constructor(calls: Calls, { spansSlots }: { readonly spansSlots: boolean }) {
    this.#calls = calls
    this.#maxAppends = spansSlots ? MAX_APPENDS : 1
  }

  /** For a script that takes any number of appends, one after the other, and answers with a list. */
  run(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const batch = this.#batches.get(script) ?? this.#begin(script)
      batch.appends.push({ keys, args, resolve, reject })
      for (const { length } of args) batch.chars += length
      if (batch.appends.length >= this.#maxAppends || batch.chars >= MAX_CHARS) this.#end(script)
    })
  }

  #begin(script: Script): Batch {
    const batch = { appends: [], chars: 0 }
    this.#batches.set(script, batch)
    setImmediate(() => {
      if (this.#batches.get(script) === batch) this.#end(script)
    })
    return batch
  }

  #end(script: Script): void {
    const { appends } = this.#batches.get(script) ?? { appends: [] }
    this.#batches.delete(script)
    void this.#send(script, appends)
  }

  async #send(script: Script, appends: readonly Append[]): Promise<void> {
    const keys: string[] = []
    const args: string[] = []
    for (const append of appends) {
      keys.push(...append.keys)
      args.push(...append.args)
    }
    try {
      const replies = await this.#calls.run(script, keys, args)
      for (const [index, append] of appends.entries()) append.resolve(replyAt(replies, index))
    } catch (error) {
      // A turn whose keys are damaged must not fail the others; what was added is not added again.
      const isDamage = appends.length > 1 && hasCode(error, 'STORE_FAILED')
      if (isDamage) for (const append of appends) void this.#send(script, [append])
      else for (const append of appends) append.reject(error)
    }
  }
}

function replyAt(replies: unknown, index: number): unknown {
  return Array.isArray(replies) ? replies[index] : undefined
}
