/** Characters stand for numbers from '0' on: none of them begins a line of another kind. */
export const FIRST_CODE = 0x30

// Steps below 48 are one character; larger ones have one of the 31 characters from '`' to '~' first.
const ONE_CHAR_STEPS = 48
const STEP_CODES = 79
export const SHORT_STEPS = ONE_CHAR_STEPS + (STEP_CODES - ONE_CHAR_STEPS) * STEP_CODES

/** The one or two characters that stand for a step below `SHORT_STEPS`. */
export function stepCode(step: number): string {
  if (step < ONE_CHAR_STEPS) return String.fromCharCode(FIRST_CODE + step)
  const rest = step - ONE_CHAR_STEPS
  const lead = ONE_CHAR_STEPS + Math.floor(rest / STEP_CODES)
  return String.fromCharCode(FIRST_CODE + lead, FIRST_CODE + (rest % STEP_CODES))
}

/** The step that stands at a place of a text; undefined when there is none. */
export function stepAt(text: string, at: number): number | undefined {
  const lead = text.charCodeAt(at) - FIRST_CODE
  if (lead >= 0 && lead < ONE_CHAR_STEPS) return lead
  const second = text.charCodeAt(at + 1) - FIRST_CODE
  const isPair = lead >= ONE_CHAR_STEPS && lead < STEP_CODES && second >= 0 && second < STEP_CODES
  return isPair ? ONE_CHAR_STEPS + (lead - ONE_CHAR_STEPS) * STEP_CODES + second : undefined
}
