import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import { ResponseStream, ResponseStreamError } from '../../../turnstream/src/index.ts'
import { outcome, settle } from './support.ts'

const TIMEOUT_MS = 50
const DONE = { done: true, value: undefined }

/** What the stream and the model are both told to do, and what they note of it. */
interface Actor {
  readonly adds: unknown[]
  readonly nexts: unknown[]
  readonly sends: Map<number, unknown>
  add(events: number[]): void
  send(event: number): void
  next(): void
  leave(): void
  end(ending: Ending): void
  abort(): void
  idle(): void | Promise<void>
}
type Ending = 'completed' | 'failed'
type Action = (actor: Actor, event: number) => void | Promise<void>

const livelyActions: Record<string, Action> = {
  addEvent: (actor, event) => actor.add([event]),
  addEvents: (actor, event) => actor.add([event, event + 0.5]),
  send: (actor, event) => actor.send(event),
  next: (actor) => actor.next(),
  nextTwice(actor) {
    actor.next()
    actor.next()
  },
  leave: (actor) => actor.leave(),
  settle: () => settle(),
  idle: (actor) => actor.idle(),
}
const endingActions: Record<string, Action> = {
  complete: (actor) => actor.end('completed'),
  error: (actor) => actor.end('failed'),
  abort: (actor) => actor.abort(),
}

/**
 * What a stream must do, in one array: accepted and not yet delivered events, of which the first
 * `capacity` are the buffer and the others are waiting sends.
 */
class Model implements Actor {
  queue: number[] = []
  ending: 'open' | Ending = 'open'
  aborted = false
  readonly adds: unknown[] = []
  readonly nexts: unknown[] = []
  readonly sends = new Map<number, unknown>()
  readonly #capacity: number
  #reading = true
  #waiting: number[] = []

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  get bufferSize(): number {
    return Math.min(this.queue.length, this.#capacity)
  }

  add(events: number[]): void {
    const room = this.#capacity + this.#waiting.length - this.queue.length
    const refusal = this.#refusal ?? (events.length > room ? 'BACKPRESSURE' : undefined)
    this.adds.push(refusal)
    if (refusal === undefined) this.#accept(events)
  }

  send(event: number): void {
    const refusal = this.#refusal
    this.sends.set(event, refusal ?? 'waiting')
    if (refusal === undefined) this.#accept([event])
  }

  next(): void {
    const slot = this.nexts.push(this.#reading ? 'waiting' : DONE) - 1
    if (!this.#reading) return
    this.#waiting.push(slot)
    if (this.queue.length === 0 && this.#refusal !== undefined) this.#finishReading(this.#failure)
    this.#match()
  }

  leave(): void {
    this.#finishReading(DONE)
    this.#reading = true
  }

  end(ending: Ending): void {
    if (this.#refusal !== undefined) return
    this.ending = ending
    if (this.#waiting.length > 0) this.#finishReading(this.#failure)
  }

  abort(): void {
    if (this.#refusal !== undefined && this.queue.length === 0) return
    for (const [event, state] of this.sends) {
      if (state === 'waiting') this.sends.set(event, 'ABORTED')
    }
    this.aborted = true
    this.queue = []
    if (this.#waiting.length > 0) this.#finishReading(this.#failure)
  }

  idle(): void {
    if (this.#waiting.length > 0) this.#finishReading('TIMEOUT')
  }

  get #refusal(): string | undefined {
    if (this.aborted) return 'ABORTED'
    return this.ending === 'open' ? undefined : 'STREAM_ERROR'
  }

  get #failure(): unknown {
    return this.ending === 'completed' && !this.aborted ? DONE : this.#refusal
  }

  #finishReading(first: unknown): void {
    for (const [i, slot] of this.#waiting.entries()) this.nexts[slot] = i === 0 ? first : DONE
    this.#waiting = []
    this.#reading = false
  }

  #accept(events: number[]): void {
    this.queue.push(...events)
    this.#match()
  }

  #match(): void {
    const admitted: number[] = []
    while (this.#waiting.length > 0 && this.queue.length > 0) {
      const [slot = -1, value = -1] = [this.#waiting.shift(), this.queue.shift()]
      this.nexts[slot] = { done: false, value }
      admitted.push(value)
    }
    admitted.push(...this.queue.slice(0, this.#capacity))
    for (const event of admitted) if (this.sends.has(event)) this.sends.set(event, undefined)
  }
}

class Subject implements Actor {
  readonly adds: unknown[] = []
  readonly nexts: unknown[] = []
  readonly sends = new Map<number, unknown>()
  readonly stream: ResponseStream<number>
  readonly #clock = fakeClock()
  #iterator: AsyncIterableIterator<number, undefined>

  constructor(maxBufferSize: number) {
    const config = { maxBufferSize, clock: this.#clock, eventTimeout: TIMEOUT_MS }
    this.stream = new ResponseStream<number>(undefined, config)
    this.#iterator = this.stream[Symbol.asyncIterator]()
  }

  add(events: number[]): void {
    const [event, ...more] = events
    try {
      if (event !== undefined && more.length === 0) this.stream.addEvent(event)
      else this.stream.addEvents(events)
      this.adds.push(undefined)
    } catch (error) {
      this.adds.push(error instanceof ResponseStreamError ? error.code : error)
    }
  }

  send(event: number): void {
    this.sends.set(event, 'waiting')
    void outcome(this.stream.send(event)).then((result) => this.sends.set(event, result))
  }

  next(): void {
    const slot = this.nexts.push('waiting') - 1
    void outcome(this.#iterator.next()).then((result) => {
      this.nexts[slot] = result
    })
  }

  leave(): void {
    void this.#iterator.return?.()
    this.#iterator = this.stream[Symbol.asyncIterator]()
  }

  end(ending: Ending): void {
    if (ending === 'completed') this.stream.complete()
    else this.stream.error(new Error('boom'))
  }

  abort(): void {
    this.stream.abort()
  }

  idle(): Promise<void> {
    return this.#clock.advance(TIMEOUT_MS)
  }
}

describe('any sequence of calls', () => {
  test('behaves like an array: in order, nothing lost, duplicated or late', async () => {
    // Rare endings, so that most of a sequence happens on a live stream.
    const action = fc.oneof(
      { weight: 20, arbitrary: fc.constantFrom(...Object.keys(livelyActions)) },
      { weight: 1, arbitrary: fc.constantFrom(...Object.keys(endingActions)) },
    )
    const sequence = fc.array(action, { minLength: 1, maxLength: 80 })
    const actions = { ...livelyActions, ...endingActions }
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 4 }), sequence, async (capacity, names) => {
        const model = new Model(capacity)
        const subject = new Subject(capacity)
        for (const [event, name] of names.entries()) {
          // Awaiting only what must be awaited: most calls follow each other in one job.
          const pending = actions[name]?.(subject, event)
          if (pending) await pending
          void actions[name]?.(model, event)
          expect(subject.stream.getBufferSize()).toBe(model.bufferSize)
          expect(subject.stream.isAborted()).toBe(model.aborted)
          expect(subject.stream.isStreamCompleted()).toBe(model.ending !== 'open')
        }
        await settle()
        expect(subject.adds).toEqual(model.adds)
        expect(subject.nexts).toEqual(model.nexts)
        expect(subject.sends).toEqual(model.sends)
      }),
      { numRuns: caseCount(1000) },
    )
  })

  test('several senders and an intermittent consumer lose nothing', async () => {
    const senders = fc.array(fc.array(fc.nat({ max: 3 }), { maxLength: 12 }), { maxLength: 4 })
    const visits = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 3 }), senders, visits, async (...given) => {
        const [maxBufferSize, pausesOfSenders, sizes] = given
        const stream = new ResponseStream<[sender: number, event: number]>(undefined, {
          maxBufferSize,
        })
        const produce = async (pauses: number[], sender: number) => {
          for (const [event, pause] of pauses.entries()) {
            for (let i = 0; i < pause; i++) await Promise.resolve()
            await stream.send([sender, event])
          }
        }
        const produced = Promise.all(pausesOfSenders.map(produce)).then(() => stream.complete())
        const read: [number, number][] = []
        for (const size of sizes) for await (const event of stream.take(size)) read.push(event)
        for await (const event of stream) read.push(event)
        await produced
        for (const [sender, pauses] of pausesOfSenders.entries()) {
          const own = read.filter(([from]) => from === sender).map(([, event]) => event)
          expect(own).toEqual([...pauses.keys()])
        }
        expect(read).toHaveLength(pausesOfSenders.flat().length)
      }),
      { numRuns: caseCount(300) },
    )
  })
})
