/** Fills ids into a path of the gateway. A test compares the paths with those of `protocol/names.ts`. */
export const path = (strings: TemplateStringsArray, ...ids: string[]): string =>
  String.raw(strings, ...ids.map(encodeURIComponent))
