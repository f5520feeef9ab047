import { TurnstreamError } from '../protocol/errors.ts'
import { type Clock, systemClock } from './clock.ts'

export interface ResponseStreamConfig {
  /** How many events may wait for the consumer; `Infinity` for no bound. Default 1000. */
  maxBufferSize: number
  /** How long the consumer waits for an event, in ms; 0 or `Infinity` for ever. Default 30000. */
  eventTimeout: number
  /** With `false` a full buffer grows instead of refusing. Default `true`. */
  enableBackpressure: boolean
  /** Where the timeout takes its time from. Default `systemClock`. */
  clock: Clock
}

export function resolveConfig(config: Partial<ResponseStreamConfig>): ResponseStreamConfig {
  const eventTimeout = config.eventTimeout ?? 30_000
  if (!(eventTimeout >= 0)) {
    throw new TurnstreamError(
      'OPTION_INVALID',
      `eventTimeout must be 0 or more, not ${eventTimeout}`,
    )
  }
  return {
    maxBufferSize: wholeNumber('maxBufferSize', config.maxBufferSize ?? 1000, 1),
    eventTimeout: eventTimeout === 0 ? Infinity : eventTimeout,
    enableBackpressure: config.enableBackpressure ?? true,
    clock: config.clock ?? systemClock,
  }
}

export function wholeNumber(name: string, value: number, min: number): number {
  if (value >= min && (Number.isInteger(value) || value === Infinity)) return value
  throw new TurnstreamError(
    'OPTION_INVALID',
    `${name} must be a whole number of at least ${min} or Infinity, not ${value}`,
  )
}
