import { TurnstreamError } from '../protocol/errors.ts'
import { type Clock, systemClock } from './clock.ts'

export interface ResponseStreamConfig {
  /** Maximum number of buffered events; `Infinity` for no bound. Default 1000. */
  maxBufferSize: number
  /** How long the consumer waits for an event, in ms; 0 or `Infinity` disables the timeout. Default 30000. */
  eventTimeout: number
  /** If `false`, a full buffer grows instead of rejecting events. Default `true`. */
  enableBackpressure: boolean
  /** Clock for the timeout. Default `systemClock`. */
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
