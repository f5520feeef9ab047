import type { Fields } from '../openai-responses/ending.ts'
import type { TextItems, TextItemType } from '../openai-responses/text-items.ts'

/** The place of text that nobody named. */
export const UNNAMED = ''

/**
 * Which message or thought a notification is about, when one gives its index, the next its id, and
 * some neither. Only whole items teach us names: in the others an id may be made up.
 */
export class Places {
  readonly #texts: TextItems
  readonly #byName = new Map<string, string>()

  constructor(texts: TextItems) {
    this.#texts = texts
  }

  ofPart(type: TextItemType, event: Fields): string {
    const names = namesOf(event, event['item_id'])
    const last = names.length === 0 ? this.#texts.lastOpen(type) : undefined
    return this.#known(type, names) ?? last ?? names[0] ?? UNNAMED
  }

  ofItem(type: TextItemType, event: Fields, item: Fields): string {
    const names = namesOf(event, item['id'] ?? event['item_id'])
    const isUnnamedOpen = this.#texts.isOpen(type, UNNAMED)
    const place = this.#known(type, names) ?? (isUnnamedOpen ? UNNAMED : (names[0] ?? UNNAMED))
    for (const name of names) this.#byName.set(name, place)
    return place
  }

  clear(): void {
    this.#byName.clear()
  }

  #known(type: TextItemType, names: readonly string[]): string | undefined {
    const name = names.find((each) => this.#byName.has(each) || this.#texts.isOpen(type, each))
    return name === undefined ? undefined : (this.#byName.get(name) ?? name)
  }
}

function namesOf({ output_index }: Fields, id: unknown): string[] {
  return [
    ...(typeof output_index === 'number' ? [`${output_index}`] : []),
    ...(typeof id === 'string' && id !== '' ? [`id ${id}`] : []),
  ]
}
