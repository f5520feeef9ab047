import { seededRandom } from '../../../../../core/test/formats/random.ts'

/** Choices that are the same in every run with the same seed. */
export class Dice {
  readonly #random: () => number

  constructor(seed: number) {
    this.#random = seededRandom(seed)
  }

  /** A whole number from 0 up to but not including `end`. */
  below(end: number): number {
    return Math.floor(this.#random() * end)
  }

  between(first: number, last: number): number {
    return first + this.below(last - first + 1)
  }

  /** True once in so many throws. */
  oneIn(times: number): boolean {
    return this.below(times) === 0
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)] as T
  }

  times<T>(count: number, make: (index: number) => T): T[] {
    return Array.from({ length: count }, (_, index) => make(index))
  }

  bytes(length: number): Buffer {
    return Buffer.from(this.times(length, () => this.below(256)))
  }

  /** Characters of all kinds: plain, special to HTTP, JSON, SSE or addresses, and none at all. */
  text(length: number): string {
    return this.times(length, () => this.pick(CHARACTERS)).join('')
  }
}

const CHARACTERS = [
  ...Array.from('abcxyz019'),
  ...Array.from(' \t\r\n\0\v\f\u007f'),
  ...Array.from('"\\/{}[]:,;=&?#%+*@<>|^`~!$()\''),
  ...Array.from('ü世🧵\u202e\u200b\u2028\u2029\ufeff\u0301'),
  ...['\ud800', '\udfff', '..', '%00', '%2e', '%2f', '%ff', '%', '\\u0000', '\r\n\r\n', '\n\n'],
  ...['__proto__', 'constructor', 'data: ', 'event: ', 'true', 'null', '-0', '1e999'],
]
