/** Parses a URL. Not `URL.canParse`: in Node 20, once optimised, it refuses text that is not ASCII. */
export function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text)
  } catch {
    return undefined // that is the answer
  }
}
