import { type Fault, type Json, type NamedRule, rule, shown } from './fault.ts'
import type { SseRecording } from './recording.ts'

export const typeOf = ({ json }: { readonly json: Json }): string => shown(json['type'])

/** The first fault in the frames of a stream. `nameFault` is one in the names of its events. */
export function frameFault(
  { unreadable, isCut }: Pick<SseRecording, 'unreadable' | 'isCut'>,
  nameFault: Fault | undefined,
): Fault | undefined {
  if (unreadable !== undefined) {
    return { expected: 'data: with one JSON object', came: `data: ${shown(unreadable)}` }
  }
  if (nameFault !== undefined || !isCut) return nameFault
  return { expected: 'a blank line after every event', came: 'a last event without one' }
}

/** The same where events are named by their types: official clients skip others. */
export function framingFault(stream: SseRecording): Fault | undefined {
  const other = stream.events.find((event) => event.name !== typeOf(event))
  return frameFault(
    stream,
    other && {
      expected: 'event: with the type of the data',
      came: `event: ${shown(other.name)}, type: ${typeOf(other)}`,
    },
  )
}

/** `isKnown` includes heartbeats, which have a rule of their own. */
export function typesRule(isKnown: (type: string) => boolean): NamedRule {
  return rule('stream types', 'no unknown ones', 'only event types of the API', ({ events }) => {
    const other = events.map(typeOf).find((type) => !isKnown(type))
    return other && `type: ${shown(other)}`
  })
}

export function closeRule(last: string, isComplete: (stream: SseRecording) => boolean) {
  const expected = `the end of the connection after ${last}`
  return rule(
    'stream close',
    'closed by the server at the end',
    expected,
    (stream: SseRecording) => {
      if (stream.ending === 'closed' || !isComplete(stream)) return undefined
      return stream.ending === 'broken' ? 'it was broken' : 'the connection stayed open'
    },
  )
}
