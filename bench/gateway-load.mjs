// Q1: what does a delta cost the gateway in total? Load: 300 turns at once, 30 deltas a second each, by the
//     scripted provider, on the embedded store, with one xapi reader each over real HTTP; a turn has 600
//     tokens, then another takes its place. Floor: timers that produce the same tokens, a file with one fdatasync
//     every 30 ms, and the same SSE frames to as many readers.
// Q2: the same with a vendor in a third process, over real sockets. Floor: a server that passes the vendor's bytes
//     through and appends them to a file with one fdatasync every 30 ms.
// Q3: does the cost of a delta grow with the number of turns? Load: as Q1, from 10 to 3,000 turns.
//
// Measures CPU (user and system, all threads) of the server per token received by readers, over a steady window of a
// fresh process in each round. Turns start at different points, and nothing is subtracted. Every reader checks that
// its text is complete. `first turn` is the first turn of the process, sent without delays. On a machine without idle
// cores the goal for deltas/s is missed, and the other figures are void.
import { setMaxListeners } from 'node:events'
import { readStream, submit, withServer } from './gateway-clients.mjs'
import { countTokens, modelPaces, PHASES, turnText } from './gateway-turns.mjs'
import { withFolder } from './log-stores.mjs'
import { expectRatio, interleave, isQuick, median, pause, printTable } from './measure.mjs'

/** @typedef {import('./gateway-process.mjs').ServerSpec} ServerSpec */
/** @typedef {import('./gateway-turns.mjs').Pace} Pace */
/** @typedef {{ firstTurn: number, perDelta: number, cpu: number, deltas: number }} Sample In µs, and per second. */

const PACE = { atOnce: 0, tokens: 600, perSecond: 30 }
const TEXT = turnText(PACE)
const TURNS = 300
const ROUNDS = isQuick ? 1 : 7
const WINDOW_SECONDS = isQuick ? 5 : 8
/** A server would refuse all at once. */
const STARTS_AT_ONCE = 30
/** At most this many wait for the next snapshot, which arrives within 3 s. */
const UNSEEN_TOKENS = 150
const SETTLE_SECONDS = 4

/** Runs turns in `turns` slots, one after the other, each read to its end. */
class Load {
  #over = new AbortController()
  /** @type {unknown} */
  #failure
  #url
  #paces
  tokens = 0

  /** @param {string} url @param {Pace} pace */
  constructor(url, pace) {
    this.#url = url
    this.#paces = modelPaces(pace)
    setMaxListeners(0, this.#over.signal)
  }

  /** Resolves when every turn has reached its paced part. @param {number} turns */
  async start(turns) {
    let started = 0
    const startInOrder = async () => {
      while (started < turns) {
        const model = `phase-${(started++ * 7) % PHASES}`
        await new Promise((resolve) => {
          void this.#keepRunning(model, () => resolve(undefined))
        })
      }
    }
    await Promise.all(Array.from({ length: STARTS_AT_ONCE }, startInOrder))
  }

  /** Throws if a turn was lost or cut. */
  stop() {
    this.#over.abort()
    if (this.#failure !== undefined) throw this.#failure
  }

  /** @param {string} model Of the first turn. @param {() => void} onPaced */
  async #keepRunning(model, onPaced) {
    try {
      await this.readTurn(model, onPaced)
      while (!this.#over.signal.aborted) await this.readTurn('model')
    } catch (error) {
      if (!this.#over.signal.aborted) this.#failure ??= error
      onPaced()
    }
  }

  /** @param {string} model @param {() => void} [onPaced] */
  async readTurn(model, onPaced) {
    const { turnId } = await submit(this.#url, { prompt: 'go on', model })
    const { atOnce = 0 } = this.#paces[model] ?? {}
    let content = ''
    /** @param {string} data */
    const take = (data) => {
      const before = countTokens(content)
      content = contentAfter(content, data)
      const tokens = countTokens(content)
      this.tokens += tokens - before
      if (tokens >= atOnce - UNSEEN_TOKENS) onPaced?.()
    }
    await readStream(`${this.#url}/xapi/turns/${turnId}/stream`, take, this.#over.signal)
    if (content !== TEXT) throw new Error(`turn ${turnId} is incomplete: ${content}`)
  }
}

/** The frame is of xapi or of Chat Completions. @param {string} content @param {string} data */
function contentAfter(content, data) {
  if (data === '[DONE]') return content
  const json = JSON.parse(data)
  if (json.choices) return content + (json.choices[0]?.delta.content ?? '')
  if (json.origin !== 'agent') return content
  if (!json.content.startsWith(content)) throw new Error(`a snapshot lost text: ${data}`)
  return json.content
}

/** @param {ServerSpec} spec @param {Pace} pace @param {number} turns @returns {Promise<Sample>} */
function sampleLoad(spec, pace, turns) {
  return withServer(spec, async ({ url, cpu }) => {
    const load = new Load(url, pace)
    const cold = await cpu()
    await load.readTurn('burst')
    const firstTurn = ((await cpu()) - cold) / load.tokens
    await load.start(turns)
    await pause(SETTLE_SECONDS * 1000)
    const before = { cpu: await cpu(), tokens: load.tokens, at: performance.now() }
    await pause(WINDOW_SECONDS * 1000)
    const spent = (await cpu()) - before.cpu
    const tokens = load.tokens - before.tokens
    const seconds = (performance.now() - before.at) / 1000
    load.stop()
    return { firstTurn, perDelta: spent / tokens, cpu: spent / seconds, deltas: tokens / seconds }
  })
}

/** @param {{ name: string, sample: (store: string) => Promise<Sample> }[]} subjects @returns {Promise<Sample[][]>} */
async function sampleAll(subjects) {
  /** @type {Sample[][]} */
  const samples = subjects.map(() => [])
  await interleave(ROUNDS, subjects.length, async (index) => {
    const subject = subjects[index]
    if (!subject) return
    samples[index]?.push(await withFolder((folder) => subject.sample(`${folder}/store`)))
  })
  return samples
}

/** @param {Sample[]} samples @param {keyof Sample} key */
const medianOf = (samples, key) => median(samples.map((sample) => sample[key]))

/** @param {string} name @param {Sample[]} samples */
function row(name, samples) {
  const costs = samples.map(({ perDelta }) => perDelta)
  return {
    server: name,
    'us per delta': median(costs),
    lowest: Math.min(...costs),
    highest: Math.max(...costs),
    'first turn': medianOf(samples, 'firstTurn'),
    'deltas/s': medianOf(samples, 'deltas'),
  }
}

/** @param {string} title @param {string} goal @param {Record<string, (store: string) => ServerSpec>} servers Ours, then the floor. */
async function compare(title, goal, servers) {
  const subjects = Object.entries(servers).map(([name, spec]) => ({
    name,
    sample: (/** @type {string} */ store) => sampleLoad(spec(store), PACE, TURNS),
  }))
  const samples = await sampleAll(subjects)
  printTable(
    `${title}, ${TURNS} turns x ${PACE.perSecond}/s, ${ROUNDS} rounds`,
    subjects.map(({ name }, index) => row(name, samples[index] ?? [])),
  )
  const [ours = [], floor = []] = samples
  const ratios = ours.map(
    ({ perDelta }, round) => perDelta / (floor[round]?.perDelta ?? Number.NaN),
  )
  expectRatio(goal, median(ratios), 3, 2)
  for (const own of samples) expectPace(own, TURNS * PACE.perSecond)
}

/**
 * A server that lags behind works in larger batches, which cost less per delta: its figures are void.
 * @param {Sample[]} samples @param {number} nominal
 */
function expectPace(samples, nominal) {
  const name = `gateway load: deltas/s wanted / reached, ${nominal}`
  expectRatio(name, nominal / medianOf(samples, 'deltas'), 1.1)
}

export function benchGatewayLoad() {
  return compare('gateway: CPU per delta, all in', 'gateway: CPU per delta / floor', {
    'gateway, embedded': (store) => ({ kind: 'gateway', store, pace: PACE, spread: true }),
    floor: (store) => ({ kind: 'floor', store, pace: PACE }),
  })
}

export function benchGatewayVendor() {
  return withServer({ kind: 'vendor', pace: PACE }, ({ url: vendor }) =>
    compare(
      'gateway: CPU per delta with a vendor in another process',
      'gateway with a vendor: CPU per delta / pipe with a file',
      {
        'gateway, embedded': (store) => ({ kind: 'gateway', store, vendor }),
        'pipe with a file': (store) => ({ kind: 'file-pipe', store, vendor }),
      },
    ),
  )
}

/**
 * Turns, and deltas per second of each. A core cannot run 3,000 turns x 30/s, so their total rate equals that of 300
 * turns. At 3/s a snapshot is due after 9 deltas instead of 37 on average, which costs more per delta on both sides.
 * The goal limits the plain growth; the floor's is printed to show how much of it the load causes.
 */
const GROWTH = [
  { turns: 10, perSecond: 30 },
  { turns: 300, perSecond: 30 },
  { turns: 3000, perSecond: 3 },
]

/** @type {('gateway' | 'floor')[]} */
const SIDES = ['gateway', 'floor']

/**
 * A line through 10 and 300 turns gives the fixed cost of a process with turns (timers, commits) and the cost of a
 * delta. Growth is the cost of a delta at 3,000 turns without the fixed cost, divided by the cost at 300 turns.
 */
export async function benchGatewayGrowth() {
  const subjects = SIDES.flatMap((kind) =>
    GROWTH.map(({ turns, perSecond }) => ({
      name: `${kind}, ${turns} turns x ${perSecond}/s`,
      sample: (/** @type {string} */ store) => {
        const pace = { ...PACE, perSecond }
        return sampleLoad({ kind, store, pace, spread: true }, pace, turns)
      },
    })),
  )
  const samples = await sampleAll(subjects)
  const growths = SIDES.map((kind, side) => {
    const first = side * GROWTH.length
    const own = samples.slice(first, first + GROWTH.length)
    const cpu = own.map((each) => medianOf(each, 'cpu'))
    const deltas = own.map((each) => medianOf(each, 'deltas'))
    const [few = NaN, some = NaN] = cpu
    const slope = (some - few) / ((deltas[1] ?? NaN) - (deltas[0] ?? NaN))
    const fixed = few - slope * (deltas[0] ?? NaN)
    const left = cpu.map((each, index) => (each - fixed) / (deltas[index] ?? NaN))
    printTable(
      `${kind}: growth with turns, fixed cost ${(fixed / 1000).toFixed(1)} ms/s, ${ROUNDS} rounds`,
      GROWTH.map(({ turns, perSecond }, index) => ({
        load: `${turns} turns x ${perSecond}/s`,
        'deltas/s': deltas[index],
        'CPU ms/s': (cpu[index] ?? NaN) / 1000,
        'us per delta': (cpu[index] ?? NaN) / (deltas[index] ?? NaN),
        'without fixed cost': left[index],
        'x 300 turns': (left[index] ?? NaN) / slope,
      })),
    )
    for (const each of own.slice(1)) expectPace(each, TURNS * PACE.perSecond)
    return (left[2] ?? NaN) / slope
  })
  expectRatio('gateway: growth of CPU per delta to 3,000 turns', growths[0] ?? NaN, 1.3, 1)
}
