import { closeSync, fsyncSync, openSync, writeFileSync } from 'node:fs'

/** Writes a private file. It survives a crash of the system once its directory is synced too. */
export function writeDurably(file: string, content: string | Uint8Array): void {
  const handle = openSync(file, 'w', 0o600)
  try {
    writeFileSync(handle, content)
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}

/** Makes a new or renamed entry durable. Not supported on every system. */
export function syncDirectory(directory: string): void {
  try {
    const handle = openSync(directory, 'r')
    fsyncSync(handle)
    closeSync(handle)
  } catch {
    // The entry exists anyway.
  }
}
