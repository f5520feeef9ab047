import { type Clock, systemClock } from '@turnstream/core/internal/async/clock'
import type {
  ProviderRequest,
  RunContext,
} from '@turnstream/core/internal/formats/provider-request'
import type { Recordings } from '@turnstream/core/internal/formats/v2/recording'
import { optionInvalid } from '@turnstream/core/internal/protocol/errors'
import { type Provider, ProviderStream, SCRIPTED_ID } from '../provider.ts'
import { type ModelClient, toModelClient } from '../response-events.ts'
import { replayRecording } from './translate.ts'

export interface ScriptedProviderOptions {
  id?: string
  /** Recorded turns by name; the model of a request selects one. */
  recordings: Recordings
  /** 1 is the recorded pace, 2 twice as fast, Infinity without delays. */
  speed?: number
  clock?: Clock
}

/** A provider that plays recorded turns: no key, no network, deterministic. */
export function createScriptedProvider(options: ScriptedProviderOptions): ModelClient {
  const { id = SCRIPTED_ID, recordings, speed = 1, clock = systemClock } = options
  if (!(speed > 0)) throw optionInvalid(`speed is ${speed}, it must be above 0`)
  const provider: Provider = {
    id,
    stream(request, run, signal) {
      const stream = new ProviderStream(signal, clock)
      drive(play({ id, request, run, recordings, speed, clock }, stream), stream, clock)
      return stream
    },
  }
  return toModelClient(provider, clock)
}

interface Player extends Required<ScriptedProviderOptions> {
  request: ProviderRequest
  run: RunContext
}

/** A delay in milliseconds, or a promise for room in the stream. */
type Wait = number | Promise<boolean>

/** Runs a playback with one timer at a time and without a promise per delay. */
function drive(playback: Iterator<Wait, void>, stream: ProviderStream, clock: Clock): void {
  let cancel: (() => void) | undefined
  stream.signal.addEventListener('abort', () => cancel?.())
  // Has no effect after an abort, which makes an addition fail.
  const fail = (error: unknown): void => stream.error(error)
  const resume = (): void => {
    try {
      const { value: wait } = playback.next()
      if (typeof wait === 'number') cancel = clock.after(wait, resume)
      else wait?.then(resume, fail)
    } catch (error) {
      fail(error)
    }
  }
  resume()
}

function* play(player: Player, stream: ProviderStream): Generator<Wait, void> {
  const { id, request, run, recordings, speed, clock } = player
  const { model } = request
  const now = (): number => clock.now()
  const translation = replayRecording({ ...run, providerId: id, modelId: model, now })
  const found = Object.hasOwn(recordings, model) ? recordings[model] : undefined
  const recording = typeof found === 'function' ? found(request, run) : found
  const first = recording?.[0]?.timestamp ?? 0
  const start = now()
  for (const event of recording ?? []) {
    // Relative to the start, so that delays do not add up.
    const ms = start + (event.timestamp - first) / speed - now()
    if (ms > 0) yield ms
    const added = stream.addUntilEnd(translation.replay(event))
    if (typeof added !== 'boolean') yield added
  }
  const fault = recording === undefined ? unknownModel(model, recordings) : undefined
  yield Promise.resolve(stream.addUntilEnd(translation.end(fault)))
  stream.complete()
}

function unknownModel(model: string, recordings: Recordings) {
  const names = Object.keys(recordings).join(', ')
  const message = `no recording named ${model}; available: ${names}; for other models configure a provider`
  return { code: 'MODEL_UNKNOWN', message }
}
