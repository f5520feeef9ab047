import { type Check, skipped } from './check.ts'
import { decoded, type Recorded } from './exchange.ts'
import { type Fault, faultCheck, type Json, shown } from './fault.ts'
import { decodeEvents, type SseRecording } from './recording.ts'

export function typeOf({ json }: { readonly json: Json }): string {
  return shown(json['type'])
}

/** The first fault in the frames of a stream whose events are named by their types: official clients skip others. */
export function framingFault({ events, unreadable, isCut }: SseRecording): Fault | undefined {
  if (unreadable !== undefined) {
    return { expected: 'data: with one JSON object', came: `data: ${shown(unreadable)}` }
  }
  const other = events.find((event) => event.name !== typeOf(event))
  if (other !== undefined) {
    const came = `event: ${shown(other.name)}, type: ${shown(other.json['type'])}`
    return { expected: 'event: with the type of the data', came }
  }
  if (!isCut) return undefined
  return { expected: 'a blank line after every event', came: 'a last event without one' }
}

/** Checks a stream whose provider broke off. Most clients take one that just stops for a complete answer. */
export function truncationCheck(
  broken: Recorded | undefined,
  expected: string,
  hasFailed: (types: readonly unknown[]) => boolean,
): Check {
  const name = 'truncation'
  if (broken === undefined)
    return skipped(name, 'not testable: it needs a provider that breaks off')
  return faultCheck(name, truncationFault(broken, expected, hasFailed), 'an error event')
}

function truncationFault(
  broken: Recorded,
  expected: string,
  hasFailed: (types: readonly unknown[]) => boolean,
): Fault | undefined {
  const stream = decoded(broken, decodeEvents)
  if ('reason' in stream) return { expected, came: stream.reason }
  const types = stream.events.map(({ json }) => json['type'])
  if (stream.status >= 400 || hasFailed(types)) return undefined
  return { expected, came: `a stream that ends with ${shown(types.at(-1))}` }
}
