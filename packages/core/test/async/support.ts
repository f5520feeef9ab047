import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { ResponseEvent } from '../../../turnstream/src/index.ts'

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

/** What a promise comes to: its value or, if it is rejected, the code of its error. */
export function outcome(promise: Promise<unknown>): Promise<unknown> {
  return promise.catch((error: unknown) =>
    error instanceof Error && 'code' in error ? error.code : error,
  )
}

/** The outcome if there is one yet, else 'waiting'. */
export function look(promise: Promise<unknown>): Promise<unknown> {
  return Promise.race([outcome(promise), settle().then(() => 'waiting')])
}

/** Collects what can be collected, in a process that was not started with --expose-gc. */
export async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc')
  const gc: () => void = runInNewContext('gc')
  // A WeakRef that was read holds its target until the current job ends.
  await settle()
  gc()
}
