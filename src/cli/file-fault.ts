/** Why a file cannot be read. Of a directory the system says it without the name. */
export function fileFault(error: unknown, file: string): string {
  if (!(error instanceof Error)) return `${file} is unreadable`
  return 'code' in error && error.code === 'EISDIR' ? `${file} is a directory` : error.message
}
