export class Random {
  readonly seed: number
  #state: number

  constructor(seed: number) {
    this.seed = seed
    this.#state = seed >>> 0
  }

  /** A whole number from 0 to `below` - 1. */
  below(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }

  oneIn(count: number): boolean {
    return this.below(count) === 0
  }

  pick<T>(values: readonly [T, ...T[]]): T {
    return values[this.below(values.length)] ?? values[0]
  }
}

/** Runs a case once for each of several seeds. A failure reports its seed. */
export async function forSeeds(
  first: number,
  count: number,
  run: (random: Random) => Promise<void>,
): Promise<void> {
  for (let seed = first; seed < first + count; seed++) {
    try {
      await run(new Random(seed))
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      throw new Error(`with seed ${seed}: ${message}`, { cause: error })
    }
  }
}
