// Q1: what does it cost to read an event stream? Load: text deltas in the form of OpenAI's chat
//     completions (unnamed) and of Anthropic's messages (named), a chunk for each event as they arrive
//     from a model, or 64 KB chunks as when a log is replayed; one token in 16 is not ASCII. Rival:
//     eventsource-parser behind a streaming TextDecoder, the usual pair. The same with JSON.parse of
//     every event, which every adapter does, and with chunks of text.
// Q2: does a line cost more the longer it is? Load: lines of 1 and 10 MB in chunks of four characters.
// Q3: what does it cost to write a frame? Load: JSON of 300 characters with an id. Rival: splitting the data into
//     lines unconditionally.
import { createParser } from 'eventsource-parser'
import { expectRatio, measure, nsOf, printTable } from './measure.mjs'
import {
  anthropicFrames,
  chunksOf,
  frameByFrame,
  openaiFrames,
  textChunksOf,
} from './sse-streams.mjs'
import { turnstream } from './turnstream.mjs'

const { encodeSse, SseDecoder } = turnstream
const EVENTS = 20_000
const FRAMES = 100_000
const STREAMING = { stream: true }

// As in the processor's bench: a full GC between samples would drop compiled code.
const prepare = () => {}

/**
 * @typedef {(data: string) => number} Use Says how much came of an event.
 * @typedef {(chunks: (Uint8Array | string)[], use: Use) => number} Reading Returns what came of all.
 */

/** @type {Reading} */
function readByTurnstream(chunks, use) {
  const decoder = new SseDecoder()
  let used = 0
  for (const chunk of chunks) for (const { data } of decoder.feed(chunk)) used += use(data)
  return used
}

/** @type {Reading} */
function readByRival(chunks, use) {
  let used = 0
  const parser = createParser({
    onEvent({ data }) {
      used += use(data)
    },
  })
  const utf8 = new TextDecoder()
  for (const chunk of chunks) {
    parser.feed(typeof chunk === 'string' ? chunk : utf8.decode(chunk, STREAMING))
  }
  return used
}

/** @type {Use} */
const countEvent = () => 1

/** @type {Use} */
const parseEvent = (data) => (typeof JSON.parse(data) === 'object' ? 1 : 0)

/** @param {string} name @param {Reading} read @param {(Uint8Array | string)[]} chunks @param {Use} use */
function reader(name, read, chunks, use) {
  return {
    name,
    prepare,
    run() {
      const used = read(chunks, use)
      if (used !== EVENTS) throw new Error(`${name}: ${used} events`)
      return used
    },
  }
}

const openai = openaiFrames(EVENTS)
const anthropic = anthropicFrames(EVENTS)
const LOADS = [
  { load: 'openai, an event per chunk', frames: openai, chunks: frameByFrame(openai) },
  { load: 'anthropic, an event per chunk', frames: anthropic, chunks: frameByFrame(anthropic) },
  { load: 'openai, 64 KB chunks', frames: openai, chunks: chunksOf(openai, 65_536) },
  { load: 'anthropic, 64 KB chunks', frames: anthropic, chunks: chunksOf(anthropic, 65_536) },
]
const TEXT_LOADS = [
  { load: 'openai, an event per chunk', frames: openai, chunks: openai },
  { load: 'anthropic, an event per chunk', frames: anthropic, chunks: anthropic },
  { load: 'anthropic, 64 KB chunks', frames: anthropic, chunks: textChunksOf(anthropic, 65_536) },
]

/**
 * @param {string} title
 * @param {{ load: string, frames: string[], chunks: (Uint8Array | string)[] }[]} loads
 * @param {Use} use
 */
async function benchReading(title, loads, use) {
  const rows = []
  for (const { load, frames, chunks } of loads) {
    const figures = await measure([
      reader('turnstream', readByTurnstream, chunks, use),
      reader('eventsource-parser', readByRival, chunks, use),
    ])
    const ours = nsOf(figures, 'turnstream')
    const theirs = nsOf(figures, 'eventsource-parser')
    const charsPerEvent = frames.join('').length / EVENTS
    rows.push({
      load,
      turnstream: ours,
      'eventsource-parser': theirs,
      ratio: ours / theirs,
      'MB/s': (charsPerEvent / ours) * 1000,
      'their MB/s': (charsPerEvent / theirs) * 1000,
    })
  }
  printTable(`sse, ${title}: CPU ns per event`, rows)
  return rows
}

async function benchLongLines() {
  const sizes = [1_000_000, 10_000_000]
  const figures = await measure(
    sizes.map((size) => ({
      name: `a line of ${size / 1_000_000} MB`,
      prepare,
      run() {
        const decoder = new SseDecoder()
        for (let sent = 0; sent < size; sent += 4) decoder.feed('abcd')
        if (decoder.feed('\ndata: a\n\n').length !== 1) throw new Error('the event is gone')
        return size / 4
      },
    })),
    { rounds: 9, warmup: 1 },
  )
  printTable('sse, one line in chunks of four characters: CPU ns per chunk', figures)
  const growth = nsOf(figures, 'a line of 10 MB') / nsOf(figures, 'a line of 1 MB')
  expectRatio('sse: a chunk of a line of 10 MB / of 1 MB', growth, 1.5)
}

/** @param {string} name @param {(id: string) => string} encode */
function writer(name, encode) {
  return {
    name,
    prepare,
    run() {
      let length = 0
      for (let sent = 0; sent < FRAMES; sent++) length += encode(`${sent}`).length
      return length > 0 ? FRAMES : 0
    },
  }
}

async function benchEncoding() {
  const data = openai[0]?.slice('data: '.length, -2) ?? ''
  const figures = await measure([
    writer('encodeSse', (id) => encodeSse({ id, data })),
    writer('split into lines', (id) => {
      const lines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`)
      return `id: ${id}\n${lines.join('')}\n`
    }),
  ])
  printTable('sse, writing: CPU ns per frame', figures)
  const ratio = nsOf(figures, 'encodeSse') / nsOf(figures, 'split into lines')
  expectRatio('sse: encodeSse / split into lines', ratio, 1)
}

export async function benchSse() {
  const rows = await benchReading('bytes', LOADS, countEvent)
  await benchReading('bytes, with JSON.parse', LOADS, parseEvent)
  await benchReading('text', TEXT_LOADS, countEvent)
  for (const { load, ratio } of rows) expectRatio(`sse: ours / theirs, ${load}`, ratio, 1)
  await benchLongLines()
  await benchEncoding()
}
