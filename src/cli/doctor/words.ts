export function megabytes(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${(bytes / 1e6).toFixed(1)} MB`
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
