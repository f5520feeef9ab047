import { isRecord } from '@turnstream/core/internal/protocol/json'
import type { Incoming, Params } from './connection.ts'

const MAX_OUTPUT_CHARS = 100_000

const OUTPUT_DELTA = 'item/commandExecution/outputDelta'
const ITEM_MESSAGES = new Set(['item/started', 'item/completed'])

/** Limits the stored output of an agent: streams are cut off, and finished items lose their middle. */
export class OutputLimits {
  readonly #maxChars: number
  readonly #streamed = new Map<unknown, number>()

  constructor(maxChars = MAX_OUTPUT_CHARS) {
    this.#maxChars = maxChars
  }

  /** Returns undefined for output past the limit. */
  apply(message: Incoming): Incoming | undefined {
    const { method, params } = message
    if (method === OUTPUT_DELTA) return this.#limitDelta(message)
    const { item } = params
    if (!ITEM_MESSAGES.has(method) || !isRecord(item)) return message
    if (method === 'item/completed') this.#streamed.delete(item['id'])
    const limited = this.#limitItem(item)
    // The size is only a bound of what is queued.
    return limited === item ? message : { ...message, params: { ...params, item: limited } }
  }

  #limitDelta(message: Incoming): Incoming | undefined {
    const { itemId, delta } = message.params
    if (typeof delta !== 'string') return message
    const before = this.#streamed.get(itemId) ?? 0
    this.#streamed.set(itemId, before + delta.length)
    const room = this.#maxChars - before
    if (delta.length <= room) return message
    if (room < 0) return undefined
    // Past the limit from now on, even if this delta ended exactly there.
    this.#streamed.set(itemId, this.#maxChars + 1)
    const text = `${wholeCharacters(delta.slice(0, room))}\n[output truncated]\n`
    return { ...message, params: { ...message.params, delta: text }, size: text.length }
  }

  #limitItem(item: Params): Params {
    const { aggregatedOutput, changes } = item
    if (typeof aggregatedOutput === 'string') {
      return { ...item, aggregatedOutput: this.#limitText(aggregatedOutput) }
    }
    if (!Array.isArray(changes)) return item
    return { ...item, changes: changes.map((change: unknown) => this.#limitChange(change)) }
  }

  #limitChange(change: unknown): unknown {
    if (!isRecord(change) || typeof change['diff'] !== 'string') return change
    return { ...change, diff: this.#limitText(change['diff']) }
  }

  #limitText(text: string): string {
    if (text.length <= this.#maxChars) return text
    const half = Math.floor(this.#maxChars / 2)
    const omitted = text.length - 2 * half
    const start = wholeCharacters(text.slice(0, half))
    const end = text.slice(text.length - half).replace(/^[\udc00-\udfff]/, '')
    return `${start}\n[${omitted} characters omitted]\n${end}`
  }
}

/** Half a surrogate pair at the end could not be stored. */
function wholeCharacters(text: string): string {
  return text.replace(/[\ud800-\udbff]$/, '')
}
