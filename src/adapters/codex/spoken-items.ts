import type { CodexEvent } from './events.ts'
import type { SpokenItem } from './items.ts'

type Kind = SpokenItem['kind']

interface Told {
  /** Who streams: events that name their item, or those that do not. The first one does, for good. */
  streams: 'named' | 'nameless' | undefined
  /** Whether items are told as such; if so, whole texts only repeat them. */
  hasItems: boolean
  /** The name given to the item that is being streamed without one. */
  open: string | undefined
  /** A whole text that came before its item, if that comes at all. */
  said: string | undefined
}

/**
 * Earlier app-servers say the same thing up to three times: as an item with a name, as a stream
 * without one, as a whole text. This lets each thing through once, under one name.
 */
export class SpokenItems {
  readonly #told: Record<Kind, Told> = { message: untold(), reasoning: untold(), user: untold() }
  /** From the name that an item was given late to the one under which it was streamed. */
  readonly #names = new Map<string, string>()
  #count = 0
  #section = 0

  /** The event under the name of its item; undefined when it only repeats. */
  admit(event: CodexEvent): CodexEvent | undefined {
    switch (event.type) {
      case 'message_delta':
        return this.#admitDelta('message', event)
      case 'reasoning_delta':
        return this.#admitDelta('reasoning', event)
      case 'reasoning_break':
        this.#section += 1
        return undefined
      case 'said':
        return this.#admitWhole(event.item)
      case 'item_started':
      case 'item_completed':
        return event.item.kind === 'tool' ? event : this.#admitItem(event.type, event.item)
      case 'turn_started':
      case 'turn_ended':
      case 'attempt_failed':
        this.#forget()
        return event
      default:
        return event
    }
  }

  #admitDelta<E extends CodexEvent & { type: 'message_delta' | 'reasoning_delta' }>(
    kind: Kind,
    event: E,
  ): E | undefined {
    const told = this.#told[kind]
    told.streams ??= event.id === undefined ? 'nameless' : 'named'
    told.said = undefined
    if (event.id !== undefined) {
      return told.streams === 'named' ? { ...event, id: this.#nameOf(event.id) } : undefined
    }
    if (told.streams === 'named') return undefined
    told.open ??= this.#newName()
    if (event.type === 'message_delta') return { ...event, id: told.open }
    return { ...event, id: told.open, part: `${event.part} ${this.#section}` }
  }

  #admitItem(type: 'item_started' | 'item_completed', item: SpokenItem): CodexEvent | undefined {
    const told = this.#told[item.kind]
    const isDone = type === 'item_completed'
    told.hasItems = true
    if (told.said !== undefined && told.said === item.text) {
      if (isDone) told.said = undefined
      return undefined
    }
    const id = this.#nameFor(item.id, told)
    if (isDone && told.open === id) told.open = undefined
    return { type, item: { ...item, id } }
  }

  #nameFor(id: string | undefined, told: Told): string {
    if (id === undefined) return (told.open ??= this.#newName())
    if (told.open !== undefined && !this.#names.has(id)) this.#names.set(id, told.open)
    return this.#nameOf(id)
  }

  #admitWhole(item: SpokenItem): CodexEvent | undefined {
    const told = this.#told[item.kind]
    if (told.open === undefined && told.hasItems) return undefined
    const id = told.open ?? this.#newName()
    told.open = undefined
    told.said = item.text
    return { type: 'item_completed', item: { ...item, id } }
  }

  #nameOf(id: string): string {
    return this.#names.get(id) ?? id
  }

  #newName(): string {
    this.#count += 1
    return `nameless ${this.#count}`
  }

  #forget(): void {
    this.#names.clear()
    for (const told of Object.values(this.#told)) {
      told.open = undefined
      told.said = undefined
    }
  }
}

function untold(): Told {
  return { streams: undefined, hasItems: false, open: undefined, said: undefined }
}
