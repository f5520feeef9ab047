/** Seeded random numbers. */
export class Random {
  #state = 0x811c9dc5

  /** @param {string} seed */
  constructor(seed) {
    for (let at = 0; at < seed.length; at++) {
      this.#state = Math.imul(this.#state ^ seed.charCodeAt(at), 0x01000193)
    }
  }

  /** From 0 up to 1, which is never reached (mulberry32). */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32
  }

  /** An integer, both bounds included. @param {number} from @param {number} to */
  between(from, to) {
    return from + Math.floor(this.next() * (to - from + 1))
  }

  /** @param {number} probability */
  chance(probability) {
    return this.next() < probability
  }

  /** @template T @param {readonly [T, ...T[]]} choices @returns {T} */
  pick(choices) {
    return choices[this.between(0, choices.length - 1)] ?? choices[0]
  }
}
