import type { CodexEvent, Scope } from './events.ts'

/** Where in the input we are. `skipping`: the response has broken, its turn is not over. */
export type Place =
  | { at: 'before' }
  | { at: 'between' }
  | { at: 'inside'; scope: Scope }
  | { at: 'skipping'; scope: Scope }

/** What an event does to the place, before it does anything else. */
export type Step = 'ignore' | 'stay' | 'enter' | 'replace' | 'leave'

export function stepOf(place: Place, event: CodexEvent, scope: Scope): Step {
  switch (place.at) {
    case 'before':
      return beginsFirst(event) ? 'enter' : 'ignore'
    case 'between':
      return event.type === 'turn_started' || beginsNext(event, scope) ? 'enter' : 'ignore'
    case 'inside':
      if (event.type === 'turn_started') return secondStart(place.scope, scope)
      return isForeign(place.scope, scope) ? 'ignore' : 'stay'
    case 'skipping':
      if (event.type === 'turn_started')
        return isForeignThread(place.scope, scope) ? 'ignore' : 'enter'
      return event.type === 'turn_ended' && !isForeign(place.scope, scope) ? 'leave' : 'ignore'
  }
}

/** Other turns, such as those of sub-agents, are told on the same line. */
export function isForeign(own: Scope, other: Scope): boolean {
  return isForeignThread(own, other) || isOther(own.turnId, other.turnId)
}

function isForeignThread(own: Scope, other: Scope): boolean {
  return isOther(own.threadId, other.threadId)
}

/** A thread has one turn at a time: if another one begins, this one has lost its end. */
function secondStart(own: Scope, other: Scope): Step {
  return isOther(own.turnId, other.turnId) && !isForeignThread(own, other) ? 'replace' : 'ignore'
}

/** Raw items are told of the history, too, and counts of earlier turns. */
function beginsFirst({ type }: CodexEvent): boolean {
  return type !== 'raw_item' && type !== 'response_completed' && type !== 'thread_usage'
}

/** Turns that have names begin by name; what still comes then belongs to one that is over. */
function beginsNext({ type }: CodexEvent, { turnId }: Scope): boolean {
  if (turnId !== undefined) return false
  return type === 'message_delta' || type === 'reasoning_delta' || type === 'item_started'
}

function isOther(own: string | undefined, other: string | undefined): boolean {
  return own !== undefined && other !== undefined && own !== other
}
