// Question: what does one event cost in a ResponseStream, and does the cost grow with the queue?
// Load: text deltas of a few characters. "Producer ahead": a turn of 1,000 events is written, then
//   read with for await. "Ping-pong": the consumer waits, one event comes, 50,000 times.
// Rivals: it-pushable, @repeaterjs/repeater, PassThrough in object mode, web ReadableStream. None
//   of them has an idle timeout; ours is on, as by default.
import { channels, TURN } from './channels.mjs'
import { expectRatio, heapAfterGc, measure, nsOf, printTable } from './measure.mjs'
import { turnstream } from './turnstream.mjs'

const { ResponseStream } = turnstream
const OURS = 'ResponseStream'

/** @type {import('./channels.mjs').Delta[]} */
const turn = Array.from({ length: TURN }, (_, i) => ({
  type: 'OutputTextDelta',
  delta: `word${i} `,
}))

/** @param {string} title @param {(open: () => import('./channels.mjs').Channel) => Promise<number>} load */
async function against(title, load) {
  const subjects = Object.entries(channels).map(([name, open]) => ({ name, run: () => load(open) }))
  const figures = await measure(subjects)
  const best = Math.min(...figures.filter(({ name }) => name !== OURS).map(({ ns }) => ns))
  printTable(
    `channel, ${title}: CPU ns per event`,
    figures.map((figure) => ({ ...figure, 'x best rival': figure.ns / best })),
  )
  expectRatio(`channel, ${title}: ${OURS} / best rival`, nsOf(figures, OURS) / best, 1.15)
}

/** @param {() => import('./channels.mjs').Channel} open */
async function producerAhead(open) {
  const turns = 100
  let read = 0
  for (let i = 0; i < turns; i++) {
    const { push, end, output } = open()
    for (const event of turn) push(event)
    end()
    for await (const { delta } of output) if (delta.length > 0) read += 1
  }
  return exactly(turns * TURN, read)
}

/** @param {() => import('./channels.mjs').Channel} open */
async function pingPong(open) {
  const rounds = 50_000
  const { push, end, output } = open()
  const iterator = output[Symbol.asyncIterator]()
  let read = 0
  for (let i = 0; i < rounds; i++) {
    const pending = iterator.next()
    push(turn[i % TURN] ?? { type: 'OutputTextDelta', delta: '' })
    const { value } = await pending
    if (value.delta.length > 0) read += 1
  }
  end()
  if (!(await iterator.next()).done) throw new Error('an event came after the end')
  return exactly(rounds, read)
}

/** @param {number} expected @param {number} actual */
function exactly(expected, actual) {
  if (actual !== expected) throw new Error(`${actual} events came out where ${expected} went in`)
  return actual
}

async function growth() {
  const depths = [10, 1000, 1_000_000]
  const figures = await measure(
    depths.map((depth) => ({
      name: `${depth} buffered`,
      run: () => fillAndDrain(depth, Math.max(depth, 200_000)),
    })),
  )
  printTable('channel, growth: CPU ns per event', figures)
  const ratio = nsOf(figures, '1000000 buffered') / nsOf(figures, '10 buffered')
  expectRatio('channel, growth: 1,000,000 buffered / 10 buffered', ratio, 2)
}

/** Fills the buffer to `depth` and empties it again, until `total` events have passed. */
async function fillAndDrain(/** @type {number} */ depth, /** @type {number} */ total) {
  const stream = openUnbounded()
  const iterator = stream[Symbol.asyncIterator]()
  for (let passed = 0; passed < total; passed += depth) {
    fill(stream, depth)
    for (let i = 0; i < depth; i++) {
      const { value } = await iterator.next()
      if (value !== i) throw new Error(`${value} came out where ${i} was due`)
    }
  }
  await iterator.return?.()
  return total
}

function memory() {
  const depth = 1_000_000
  const before = heapAfterGc()
  const stream = openUnbounded()
  fill(stream, depth)
  const bytes = (heapAfterGc() - before) / stream.getBufferSize()
  printTable('channel, memory beside the event itself', [{ 'bytes per buffered event': bytes }])
}

/** @returns {import('../packages/turnstream/src/index.ts').ResponseStream<number>} */
function openUnbounded() {
  return new ResponseStream(undefined, { enableBackpressure: false })
}

/** @param {import('../packages/turnstream/src/index.ts').ResponseStream<number>} stream @param {number} depth */
function fill(stream, depth) {
  for (let i = 0; i < depth; i++) stream.addEvent(i)
}

export async function benchChannel() {
  await against('producer ahead', producerAhead)
  await against('ping-pong', pingPong)
  await growth()
  memory()
}
