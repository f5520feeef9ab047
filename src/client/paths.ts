/** Fills ids into a path of the gateway. A test compares the paths with those of `protocol/names.ts`. */
export const path = ({ raw }: TemplateStringsArray, ...ids: string[]): string =>
  String.raw({ raw }, ...ids.map(encodeURIComponent))
