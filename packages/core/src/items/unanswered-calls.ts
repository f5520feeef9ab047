interface Entry<Call> {
  readonly itemId: string
  readonly callId: string
  readonly call: Call
}

/**
 * Finished calls without an output, oldest first. Some vendors reuse a call id: its outputs come in the order of its
 * calls. Others send an output before its call.
 */
export class UnansweredCalls<Call, Output> {
  readonly #calls = new Map<string, Entry<Call>>()
  readonly #early = new Map<string, Output>()

  get all(): Call[] {
    return [...this.#calls.values()].map(({ call }) => call)
  }

  /** Outputs without a call so far. */
  get earlyOutputs(): Output[] {
    return [...this.#early.values()]
  }

  has(itemId: string): boolean {
    return this.#calls.has(itemId)
  }

  withId(callId: string): Call[] {
    return this.#entries(callId).map(({ call }) => call)
  }

  /** Adds a call, unless its output came first: then returns that. */
  add(itemId: string, callId: string, call: Call): Output | undefined {
    const output = this.#early.get(callId)
    if (output === undefined) this.#calls.set(itemId, { itemId, callId, call })
    else this.#early.delete(callId)
    return output
  }

  /** Removes the call that an output answers: the oldest with its id, if possible a preferred one. */
  answer(
    callId: string,
    output: Output,
    isPreferred: (call: Call) => boolean = () => true,
  ): Call | undefined {
    const entries = this.#entries(callId)
    const entry = entries.find(({ call }) => isPreferred(call)) ?? entries[0]
    if (entry === undefined) this.#early.set(callId, output)
    else this.#calls.delete(entry.itemId)
    return entry?.call
  }

  delete(itemId: string): void {
    this.#calls.delete(itemId)
  }

  clear(): void {
    this.#calls.clear()
    this.#early.clear()
  }

  #entries(callId: string): Entry<Call>[] {
    return [...this.#calls.values()].filter((entry) => entry.callId === callId)
  }
}
