import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { ResponseEvent } from '../../src/index.ts'

export function delta(text: string): ResponseEvent {
  return { type: 'OutputTextDelta', delta: text }
}

/** Lets every promise job run that can run. */
export function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

/** Reads to the end: what came out and, if it threw, the error. */
export async function readAll<T>(
  stream: AsyncIterable<T>,
): Promise<{ events: T[]; error: unknown }> {
  const events: T[] = []
  try {
    for await (const event of stream) events.push(event)
  } catch (error) {
    return { events, error }
  }
  return { events, error: undefined }
}

/** What a promise is at this moment: its value, its error's code, or 'waiting'. */
export async function look(promise: Promise<unknown>): Promise<unknown> {
  let state: unknown = 'waiting'
  promise.then(
    (value) => {
      state = value
    },
    (error: unknown) => {
      state = error instanceof Error && 'code' in error ? error.code : error
    },
  )
  await settle()
  return state
}

/** Collects what can be collected, in a process that was not started with --expose-gc. */
export async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc')
  const gc: () => void = runInNewContext('gc')
  // A WeakRef that was read holds its target until the current job ends.
  await settle()
  gc()
}
