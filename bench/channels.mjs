// The compared channels, behind one interface: push, end, output.
import { PassThrough } from 'node:stream'
import { FixedBuffer, pushable, Repeater } from './rivals.mjs'
import { turnstream } from './turnstream.mjs'

const { ResponseStream } = turnstream

/** Events of a turn. Every channel must be able to buffer them. */
export const TURN = 1000

/**
 * @typedef {{ type: 'OutputTextDelta', delta: string }} Delta
 *
 * @typedef {object} Channel
 * @property {(event: Delta) => void} push
 * @property {() => void} end
 * @property {AsyncIterable<Delta>} output
 */

export const channels = {
  ResponseStream: openResponseStream,
  'it-pushable': openPushable,
  repeater: openRepeater,
  PassThrough: openPassThrough,
  ReadableStream: openReadableStream,
}

/** @returns {Channel} */
function openResponseStream() {
  /** @type {InstanceType<typeof ResponseStream<Delta>>} */
  const stream = new ResponseStream()
  return { push: (event) => stream.addEvent(event), end: () => stream.complete(), output: stream }
}

/** @returns {Channel} */
function openPushable() {
  /** @type {import('./rivals.mjs').Pushable<Delta>} */
  const source = pushable({ objectMode: true })
  return { push: (event) => source.push(event), end: () => source.end(), output: source }
}

/** @returns {Channel} */
function openRepeater() {
  /** @type {Delta[]} */
  const early = []
  let ended = false
  /** @type {(event: Delta) => void} */
  let push = (event) => early.push(event)
  let stop = () => {
    ended = true
  }
  // The executor runs at the first next(). Until then the producer must buffer its events.
  const execute = (/** @type {typeof push} */ pushNow, /** @type {typeof stop} */ stopNow) => {
    for (const event of early) pushNow(event)
    push = pushNow
    stop = stopNow
    if (ended) stop()
  }
  return {
    push: (event) => push(event),
    end: () => stop(),
    output: new Repeater(
      (pushNow, stopNow) => execute((event) => void pushNow(event), stopNow),
      new FixedBuffer(TURN),
    ),
  }
}

/** @returns {Channel} */
function openPassThrough() {
  const stream = new PassThrough({ objectMode: true, highWaterMark: TURN })
  return { push: (event) => stream.write(event), end: () => stream.end(), output: stream }
}

/** @returns {Channel} */
function openReadableStream() {
  /** @type {ReadableStreamDefaultController<Delta> | undefined} */
  let controller
  const output = new ReadableStream(
    {
      start(given) {
        controller = given
      },
    },
    { highWaterMark: TURN },
  )
  return {
    push: (event) => controller?.enqueue(event),
    end: () => controller?.close(),
    output,
  }
}
