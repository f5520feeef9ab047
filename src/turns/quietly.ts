/** Whoever is told of failures cannot cause another. */
export function quietly<About>(
  onError: ((error: unknown, about: About) => void) | undefined,
): (error: unknown, about: About) => void {
  return (error, about) => {
    try {
      onError?.(error, about)
    } catch {
      // The one who would be told of this failure is the one who failed.
    }
  }
}
