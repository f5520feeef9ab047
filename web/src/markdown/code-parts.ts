/** How much code is highlighted at once. Some texts take quadratic time: 0.2 s for this much. */
export const MAX_PART_CHARS = 5000

/**
 * Splits code into parts that are highlighted one after the other: after a blank line if possible, or else after a line.
 * A comment or string that spans two parts loses its colour in the second.
 */
export function* codeParts(code: string): Generator<string> {
  for (let start = 0; start < code.length; ) {
    const end = endOfPart(code, start)
    yield code.slice(start, end)
    start = end
  }
}

function endOfPart(code: string, start: number): number {
  const most = start + MAX_PART_CHARS
  if (most >= code.length) return code.length
  const part = code.slice(start, most)
  for (const mark of ['\n\n', '\n']) {
    const at = part.lastIndexOf(mark)
    // Parts must not be too many.
    if (at >= MAX_PART_CHARS / 2) return start + at + mark.length
  }
  const isInPair = (code.charCodeAt(most - 1) & 0xfc00) === 0xd800
  return isInPair ? most - 1 : most
}
