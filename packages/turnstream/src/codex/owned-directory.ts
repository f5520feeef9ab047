import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'

/** Name of a directory: prefix, process id, start of that process, and six random characters. */
const NAME = /^(\d+)-(\d+)-\w{6}$/

/** Creates a private directory that names this process as its owner. */
export function createOwnedDirectory(parent: string, prefix: string): string {
  return mkdtempSync(join(parent, `${prefix}${process.pid}-${startOf(process.pid) ?? 0}-`))
}

export function listDirectories(parent: string, prefix: string): string[] {
  const names = namesIn(parent).filter(
    (name) => name.startsWith(prefix) && NAME.test(name.slice(prefix.length)),
  )
  return names.map((name) => join(parent, name))
}

/** Directories whose owner is gone, for example after a crash. */
export function listOrphans(parent: string, prefix: string): string[] {
  return listDirectories(parent, prefix).filter((directory) => {
    const [, pid, start] = NAME.exec(basename(directory).slice(prefix.length)) ?? []
    return !isRunning(Number(pid), Number(start))
  })
}

/** A process that is about to exit may still write: then the directory stays for the next sweep. */
export function removeDirectory(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true, maxRetries: 3 })
  } catch {
    // Unreadable or busy. It holds nothing that another process uses.
  }
}

function namesIn(parent: string): string[] {
  try {
    return readdirSync(parent)
  } catch {
    return []
  }
}

function isRunning(pid: number, start: number): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
  const known = startOf(pid)
  // In a container every gateway may have the same id.
  return known === undefined || known === start
}

/** When a process started, in clock ticks since the system did; undefined where the system does not tell. */
function startOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
  } catch {
    return undefined
  }
}
