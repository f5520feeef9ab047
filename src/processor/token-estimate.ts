/** Roughly four characters to a token, rounded up; from a length, so that no text is ever rescanned. */
export function estimateTokensOfLength(length: number): number {
  return Math.ceil(length / 4)
}

export function estimateTokenCount(text: string): number {
  return estimateTokensOfLength(text.length)
}
