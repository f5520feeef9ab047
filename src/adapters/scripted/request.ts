import { TurnstreamError } from '../../protocol/errors.ts'
import type { ProviderRequest } from '../provider.ts'
import type { Recording } from './wire.ts'

export type Recordings = Readonly<Record<string, Recording>>

/** The recording that goes by the name of the model. */
export function selectRecording(request: ProviderRequest, recordings: Recordings): Recording {
  const recording = Object.hasOwn(recordings, request.model) ? recordings[request.model] : undefined
  if (recording !== undefined) return recording
  const names = Object.keys(recordings).join(', ')
  throw new TurnstreamError(
    'MODEL_UNKNOWN',
    `no recording named ${request.model}; there are: ${names}; for other models set up their provider`,
  )
}
