/** Strings of this length are encoded on their own. */
const LONG_CHARS = 4096

/** The length of a piece, before its characters are escaped. */
const PIECE_CHARS = 65_536

/** Stands for a long string. No text that was written before can contain it. */
const MARK = `long-${crypto.getRandomValues(new Uint32Array(4)).join('-')}`
const QUOTED_MARK = `"${MARK}"`

type Replacer = (key: string, value: unknown) => unknown

/**
 * Yields the text of `JSON.stringify(value, replacer)` in pieces, none of which ends within a surrogate pair. The engine
 * would write a large text again and again into larger buffers.
 */
export function* jsonPieces(
  value: object,
  replacer: Replacer = (_key, each) => each,
): Generator<string> {
  const long: string[] = []
  const json = JSON.stringify(value, (key, each: unknown) => {
    if (typeof each !== 'string' || each.length < LONG_CHARS) return replacer(key, each)
    long.push(each)
    return MARK
  })
  let start = 0
  for (const text of long) {
    const end = json.indexOf(QUOTED_MARK, start)
    yield* split(json.slice(start, end))
    yield '"'
    for (const piece of split(text)) yield JSON.stringify(piece).slice(1, -1)
    yield '"'
    start = end + QUOTED_MARK.length
  }
  yield* split(json.slice(start))
}

/** Returns the length of `JSON.stringify(value)`, except that the characters of long strings count as not escaped. */
export function jsonLength(value: object): number {
  let longChars = 0
  const json = JSON.stringify(value, (_key, each: unknown) => {
    if (typeof each !== 'string' || each.length < LONG_CHARS) return each
    longChars += each.length
    return ''
  })
  return json.length + longChars
}

function* split(text: string): Generator<string> {
  for (let start = 0; start < text.length; ) {
    const last = start + PIECE_CHARS - 1
    const end = isHighSurrogate(text.charCodeAt(last)) ? last : last + 1
    yield text.slice(start, end)
    start = end
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00
}
