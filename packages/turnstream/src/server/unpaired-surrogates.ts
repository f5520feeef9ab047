import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'

/** Halves of characters, as JSON can write them. To encode one takes forty times as long as a letter. */
export const MAX_UNPAIRED = 10_000

const STEP = 65_536

const LOWER_CASE = 0x20
const D = 0x64
const U = 0x75
const EIGHT = 0x38
const NINE = 0x39
const A = 0x61
const B = 0x62
const C = 0x63
const F = 0x66

/** Returns whether a JSON text has more escapes of unpaired surrogates than `MAX_UNPAIRED`. */
export async function hasManyUnpaired(text: string): Promise<boolean> {
  let unpaired = 0
  /** The end of the last first half. */
  let open = -1
  let steps = 0
  for (let at = text.indexOf('\\'); at !== -1; at = text.indexOf('\\', at)) {
    steps += 1
    if (steps % STEP === 0 && isSliceOver()) await nextSlice()
    const half = text.charCodeAt(at + 1) === U ? halfAt(text, at + 2) : undefined
    const isSecond = half === 'second' && open === at
    if (isSecond) unpaired -= 1
    else if (half !== undefined) unpaired += 1
    if (unpaired > MAX_UNPAIRED) return true
    at += half === undefined ? 2 : 6
    open = half === 'first' ? at : -1
  }
  return false
}

/** Reads the first two of four hexadecimal digits. */
function halfAt(text: string, at: number): 'first' | 'second' | undefined {
  if ((text.charCodeAt(at) | LOWER_CASE) !== D) return undefined
  const digit = text.charCodeAt(at + 1)
  const letter = digit | LOWER_CASE
  if (digit === EIGHT || digit === NINE || letter === A || letter === B) return 'first'
  return letter >= C && letter <= F ? 'second' : undefined
}
