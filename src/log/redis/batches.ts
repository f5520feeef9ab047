import { hasCode } from '../../protocol/errors.ts'
import type { Calls } from './calls.ts'
import { corrupt, list } from './replies.ts'
import type { Script } from './script.ts'

/** So much goes into one call at most: a script keeps the server from everything else while it runs. */
const MAX_APPENDS = 64
const MAX_CHARS = 256 * 1024

/** Learns how an append went; one of these is called, once. */
export interface Receiver {
  added(): void
  /** With the state that was found: '' if there is none, something else than text if it has to be looked up. */
  refused(state: unknown): void
  failed(error: unknown): void
}

interface Append {
  readonly keys: readonly string[]
  readonly args: readonly string[]
  readonly receiver: Receiver
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

  /**
   * For a script that takes any number of appends, one after the other, and answers with a list of those
   * that it refused: the place of each, from 1, and the state that it found.
   */
  add(script: Script, append: Append): void {
    const batch = this.#batches.get(script) ?? this.#begin(script)
    batch.appends.push(append)
    for (const { length } of append.args) batch.chars += length
    if (batch.appends.length >= this.#maxAppends || batch.chars >= MAX_CHARS) this.#end(script)
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
      for (const key of append.keys) keys.push(key)
      for (const arg of append.args) args.push(arg)
    }
    let refusals: Map<number, unknown>
    try {
      refusals = parseRefusals(await this.#calls.run(script, keys, args))
    } catch (error) {
      // A turn whose keys are damaged must not fail the others; what was added is not added again.
      const isDamage = appends.length > 1 && hasCode(error, 'STORE_FAILED')
      if (isDamage) for (const append of appends) void this.#send(script, [append])
      else for (const { receiver } of appends) receiver.failed(error)
      return
    }
    for (const [index, { receiver }] of appends.entries()) {
      if (refusals.has(index + 1)) receiver.refused(refusals.get(index + 1))
      else receiver.added()
    }
  }
}

const NONE: Map<number, unknown> = new Map()

/** Nearly always there are none. */
function parseRefusals(reply: unknown): Map<number, unknown> {
  const flat = list(reply)
  if (flat.length === 0) return NONE
  const refusals = new Map<number, unknown>()
  for (let at = 0; at < flat.length; at += 2) {
    const place = flat[at]
    if (typeof place !== 'number') throw corrupt('a refusal has no place')
    refusals.set(place, flat[at + 1])
  }
  return refusals
}
