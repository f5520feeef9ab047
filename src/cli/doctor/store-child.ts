import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Clock } from '../../async/clock.ts'
import type { EmbeddedFacts } from '../../log/embedded/inspect.ts'
import type { ErrorCode } from '../../protocol/errors.ts'

export type FromChild =
  | { readonly done: number; readonly total: number }
  | { readonly facts: EmbeddedFacts }
  | { readonly error: { readonly code: ErrorCode; readonly message: string } }

/** What the child found, or how it ended without finding anything. */
export type Inspection = Exclude<FromChild, { done: number }> | { readonly crash: string }

// From dist also when this file is run from src: the child is a process without a compiler.
const CHILD = fileURLToPath(new URL('../../../dist/cli/doctor/verify-child.js', import.meta.url))

/** Some hundred records take milliseconds, even from a slow disk. */
const STALLED_MS = 60_000

/** Verifies a store in a child process: LMDB can crash, or loop, on damaged pages. */
export function inspectInChild(
  directory: string,
  clock: Clock,
  onProgress: (done: number, total: number) => void,
): Promise<Inspection> {
  return new Promise((resolve, reject) => {
    const child = fork(CHILD, [directory], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
    let found: Inspection | undefined
    let stop: (() => void) | undefined
    const watch = () => {
      stop?.()
      stop = clock.after(STALLED_MS, () => {
        found ??= { crash: `made no progress for ${STALLED_MS / 1000} s` }
        child.kill('SIGKILL')
      })
    }
    watch()
    child.on('message', (message: FromChild) => {
      watch()
      if ('done' in message) onProgress(message.done, message.total)
      else found = message
    })
    child.on('error', reject)
    child.on('close', (code, signal) => {
      stop?.()
      resolve(found ?? { crash: describeEnd(code, signal) })
    })
  })
}

function describeEnd(code: number | null, signal: NodeJS.Signals | null): string {
  if (signal === null) return `ended with code ${code}`
  // A process that is out of memory, say, gets another signal.
  const isCrash = ['SIGSEGV', 'SIGBUS', 'SIGABRT'].includes(signal)
  return `died of ${signal}${isCrash ? ': LMDB cannot read the damaged file' : ''}`
}
