// Q: what does a delta cost the gateway, all in, and does it hold for long?
// Load: 300 turns at once, 30 deltas a second each, by the scripted provider, on the embedded store, with
//     one xapi reader each over real HTTP; a turn lasts 20 seconds, then another takes its place. CPU of the
//     gateway's process with all of its threads, for 60 seconds; its memory in the first and in the last
//     third. Every reader must have the whole text in the end. Then, printed only, the same for 1,000 turns.
import { readStream, submit, withServer } from './gateway-clients.mjs'
import { textOf } from './gateway-turns.mjs'
import { withFolder } from './log-stores.mjs'
import { expectRatio, median, printTable } from './measure.mjs'

/** @typedef {import('./gateway-process.mjs').Spent} Spent */

const PACE = { atOnce: 0, tokens: 600, perSecond: 30 }
const TURN_SECONDS = PACE.tokens / PACE.perSecond
const GOAL = { turns: 300, seconds: 60 }
const MORE = { turns: 1000, seconds: 20 }
const WARMUP_SECONDS = TURN_SECONDS + 5
const LIMIT_US = 33
const LIMIT_GROWTH = 1.1
const SAMPLE_MS = 5000

/** One turn after the other, each read to its end. @param {string} url @param {AbortSignal} over */
async function keepRunning(url, over) {
  let turns = 0
  const expected = textOf(PACE)
  while (!over.aborted) {
    const { turnId } = await submit(url, { prompt: 'go on' })
    let content = ''
    let isComplete = false
    await readStream(`${url}/xapi/turns/${turnId}/stream`, (data) => {
      const output = JSON.parse(data)
      if (output.type === 'turn_complete') isComplete = true
      if (output.origin !== 'agent') return
      if (!output.content.startsWith(content)) throw new Error(`${turnId} has shrunk`)
      content = output.content
    })
    if (!isComplete || content !== expected) throw new Error(`${turnId} has a gap`)
    turns += 1
  }
  return turns
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** @param {string} directory @param {typeof GOAL} load */
function run(directory, { turns, seconds }) {
  return withServer({ kind: 'gateway', store: directory, pace: PACE }, async ({ url, spent }) => {
    const over = new AbortController()
    const readers = Array.from({ length: turns }, async (_, index) => {
      // Evenly over the length of a turn, so that they do not end together.
      await pause((index / turns) * TURN_SECONDS * 1000)
      return await keepRunning(url, over.signal)
    })
    // Seen when all are awaited, below.
    for (const reader of readers) reader.catch(() => {})
    await pause(WARMUP_SECONDS * 1000)
    const samples = [await spent()]
    const start = performance.now()
    while (performance.now() - start < seconds * 1000) {
      await pause(SAMPLE_MS)
      samples.push(await spent())
    }
    const passed = (performance.now() - start) / 1000
    over.abort()
    const done = await Promise.all(readers)
    const first = /** @type {Spent} */ (samples[0])
    const last = /** @type {Spent} */ (samples.at(-1))
    const third = Math.ceil(samples.length / 3)
    const rss = samples.map((sample) => sample.rss / 2 ** 20)
    return {
      turns,
      'us per delta': (last.cpu - first.cpu) / (last.events - first.events),
      'deltas/s each': (last.events - first.events) / (turns * passed),
      'MB at first': median(rss.slice(0, third)),
      'MB at last': median(rss.slice(-third)),
      'turns read': done.reduce((sum, each) => sum + each, 0),
      gaps: 0,
    }
  })
}

export async function benchGatewayLoad() {
  const goal = await withFolder((directory) => run(directory, GOAL))
  const more = await withFolder((directory) => run(directory, MORE))
  printTable(`gateway: ${PACE.perSecond} deltas/s each, one xapi reader each`, [goal, more])
  expectRatio('gateway: CPU us per delta, all in', goal['us per delta'], LIMIT_US)
  expectRatio(
    'gateway: memory, last third / first',
    goal['MB at last'] / goal['MB at first'],
    LIMIT_GROWTH,
  )
}
