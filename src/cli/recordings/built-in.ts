import type { Recording } from '../../adapters/scripted/wire.ts'
import { recordAnswer } from './answer.ts'
import { recordError } from './error.ts'
import { recordLong } from './long.ts'
import { recordThinking } from './thinking.ts'
import { recordTools } from './tools.ts'

const RECORDERS = {
  answer: recordAnswer,
  thinking: recordThinking,
  tools: recordTools,
  error: recordError,
  long: recordLong,
} as const satisfies Record<string, () => Recording>

export type RecordingName = keyof typeof RECORDERS

/** The default first. */
export const RECORDING_NAMES = Object.keys(RECORDERS) as RecordingName[]

/** The turns that come with turnstream, by name; each is written down when it is first played. */
export function builtInRecordings(): Readonly<Record<RecordingName, Recording>> {
  const recordings = {} as Record<RecordingName, Recording>
  for (const name of RECORDING_NAMES) {
    let recording: Recording | undefined
    Object.defineProperty(recordings, name, {
      enumerable: true,
      get: () => (recording ??= RECORDERS[name]()),
    })
  }
  return recordings
}
