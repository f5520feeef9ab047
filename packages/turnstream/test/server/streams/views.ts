import { fail, ok } from 'node:assert/strict'
import {
  applyAppend,
  type ItemSnapshot,
  SseDecoder,
  type SseEvent,
  type StreamOutput,
} from '../../../../core/src/index.ts'
import { SSE_EVENTS } from '../../../../core/src/protocol/names.ts'

/** What a client makes of the frames that it gets, over any number of connections. */
export interface View {
  take(event: SseEvent): void
  /** To be compared with what a reader sees that was never cut. */
  readonly seen: unknown
}

/** Takes every event once, and notices one that comes again. */
export class EventView implements View {
  readonly seen: string[] = []

  take({ event, data }: SseEvent): void {
    if (event === SSE_EVENTS.resync) {
      this.seen.length = 0
    } else {
      ok(event === '' && !this.seen.includes(data), `it came again: ${data}`)
      this.seen.push(data)
    }
  }
}

/** Keeps the newest state of every item, and notices one that goes back. */
export class OutputView implements View {
  readonly #outputs = new Map<string, StreamOutput>()
  /** The state of an item by how far it has come, for the turn that is read. */
  readonly #states: ReadonlyMap<string, number>

  /** `history` is everything that the turn ever shows, in order. */
  constructor(history: readonly StreamOutput[]) {
    const states = history.flatMap((output, index): [string, number][] => {
      const isUpdate = 'status' in output && output.status === 'update'
      // An update is a create for a reader to whom the item is new.
      const created = isUpdate ? [{ ...output, status: 'create' }] : []
      return [...created, output].map((each) => [JSON.stringify(each), index])
    })
    this.#states = new Map(states)
  }

  take({ event, data }: SseEvent): void {
    if (event === SSE_EVENTS.resync) {
      this.#outputs.clear()
    } else if (event === SSE_EVENTS.append) {
      const frame = JSON.parse(data)
      const item = this.#outputs.get(frame.itemId) as ItemSnapshot | undefined
      const grown = item && applyAppend(item, frame)
      this.#put(grown ?? fail(`nothing to append to: ${data}`))
    } else {
      ok(event === '', event)
      this.#put(JSON.parse(data))
    }
  }

  #put(output: StreamOutput): void {
    const key = 'itemId' in output ? output.itemId : output.type
    const before = this.#placeOf(this.#outputs.get(key))
    ok(this.#placeOf(output) >= before, `it went back: ${JSON.stringify(output)}`)
    this.#outputs.set(key, output)
  }

  #placeOf(output: StreamOutput | undefined): number {
    if (output === undefined) return 0
    const text = JSON.stringify(output)
    return this.#states.get(text) ?? fail(`it was never written: ${text}`)
  }

  get seen(): StreamOutput[] {
    return [...this.#outputs.values()]
  }
}

/** Reads bytes into a view as far as they go, and answers with the cursor to come back with. */
export function readInto(view: View, bytes: Uint8Array | string): string {
  const decoder = new SseDecoder()
  for (const event of decoder.feed(bytes)) view.take(event)
  return decoder.lastEventId
}
