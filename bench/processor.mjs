// Q1: what does a delta cost that only adds to the text? Load: four-character deltas, one and 32 open
//     items, 1k to 100k tokens. Rival: awaiting a settled promise, the minimum cost of an asynchronous call.
// Q2: what does a snapshot cost? Load: every delta emits, with a text of 1k to 100k tokens, to a sink
//     that does nothing. Rival: JSON.stringify of the same object with the same growing text.
// Q3: how much memory does a turn take? Load: 100k tokens at the default gradient. Floor: the text itself.
import { expectRatio, heapAfterGc, measure, nsOf, printTable } from './measure.mjs'
import { itemStart, TURN_ID, tokenDeltas } from './turns.mjs'
import { turnstream } from './turnstream.mjs'

const { StreamProcessor } = turnstream

// With its timer, which never fires: no macrotask runs in between.
const SILENT = { batchGradient: [] }
const DELTAS_PER_SAMPLE = 200_000
const CHARS_PER_TOKEN = 4

/** @param {object} options */
function newProcessor(options) {
  return new StreamProcessor({ turnId: TURN_ID, threadId: 'bench', onEmit() {}, ...options })
}

/** @param {number} tokens @param {number} items */
function silentDeltas(tokens, items) {
  const deltas = tokenDeltas(Math.min(tokens, 1000), items)
  return {
    name: `${tokens / 1000}k tokens, ${items} open`,
    async run() {
      for (let turn = 0; turn < DELTAS_PER_SAMPLE / tokens; turn++) {
        const processor = newProcessor(SILENT)
        for (let item = 0; item < items; item++) {
          await processor.processEvent(itemStart(`item-${item}`, 'message'))
        }
        for (let sent = 0; sent < tokens; sent += deltas.length) {
          for (const delta of deltas) await processor.processEvent(delta)
        }
      }
      return DELTAS_PER_SAMPLE
    },
  }
}

const settled = Promise.resolve()
const awaitSettled = {
  name: 'await of a settled promise',
  async run() {
    for (let count = 0; count < DELTAS_PER_SAMPLE; count++) await settled
    return DELTAS_PER_SAMPLE
  },
}

async function benchDeltas() {
  const loads = [1000, 10_000, 100_000].flatMap((tokens) => [
    silentDeltas(tokens, 1),
    silentDeltas(tokens, 32),
  ])
  const figures = await measure([awaitSettled, ...loads])
  const floor = nsOf(figures, awaitSettled.name)
  printTable(
    'processor: a delta that does not emit (ns of CPU)',
    figures.map(({ name, ns, first }) => ({ load: name, ns, 'x await': ns / floor, first })),
  )
  for (const items of [1, 32]) {
    const small = nsOf(figures, `1k tokens, ${items} open`)
    const large = nsOf(figures, `100k tokens, ${items} open`)
    expectRatio(`processor: silent delta / await, ${items} open`, large / floor, 5)
    expectRatio(`processor: silent delta 100k / 1k, ${items} open`, large / small, 1.3)
  }
}

/** @param {number} tokens */
function snapshots(tokens) {
  const count = Math.max(20, Math.min(1000, Math.round(4_000_000 / (tokens * CHARS_PER_TOKEN))))
  const text = tokenDeltas(tokens, 1)
    .map(({ payload }) => ('delta_content' in payload ? payload.delta_content : ''))
    .join('')
  const deltas = tokenDeltas(1000, 1)
  return [
    {
      name: `${tokens} tokens, processor`,
      async run() {
        const processor = newProcessor({ batchGradient: [1] })
        await processor.processEvent(itemStart('item-0', 'message', text))
        for (let sent = 0; sent < count; sent++) {
          const delta = deltas[sent % deltas.length]
          // Two tokens each, so that every delta exceeds the threshold.
          if (delta) await processor.processEvent(delta)
        }
        await processor.destroy()
        return count
      },
    },
    {
      name: `${tokens} tokens, JSON.stringify`,
      async run() {
        let content = text
        let length = 0
        for (let sent = 0; sent < count; sent++) {
          const delta = deltas[sent % deltas.length]
          if (delta && 'delta_content' in delta.payload) content += delta.payload.delta_content
          length += JSON.stringify({
            type: 'message',
            turnId: TURN_ID,
            threadId: 'bench',
            itemId: 'item-0',
            status: 'update',
            content,
            origin: 'agent',
          }).length
        }
        return length > 0 ? count : 0
      },
    },
  ]
}

async function benchSnapshots() {
  const sizes = [100, 1000, 10_000, 100_000]
  const figures = await measure(sizes.flatMap(snapshots))
  const rows = sizes.map((tokens) => {
    const ours = nsOf(figures, `${tokens} tokens, processor`)
    const floor = nsOf(figures, `${tokens} tokens, JSON.stringify`)
    return {
      'tokens in the text': String(tokens),
      processor: ours,
      stringify: floor,
      ratio: ours / floor,
    }
  })
  printTable('processor: a snapshot (ns of CPU)', rows)
  for (const { 'tokens in the text': tokens, ratio } of rows) {
    if (tokens !== '100')
      expectRatio(`processor: snapshot / stringify, ${tokens} tokens`, ratio, 1.3)
  }
}

/** @param {'message' | 'function_call'} itemType @param {number} tokens */
async function heapOfTurn(itemType, tokens) {
  const before = heapAfterGc()
  const processor = newProcessor({})
  await processor.processEvent(itemStart('item-0', itemType))
  for (let sent = 0; sent < tokens; sent += 1000) {
    for (const delta of tokenDeltas(1000, 1)) await processor.processEvent(delta)
  }
  const bytes = heapAfterGc() - before
  if (processor.getBufferState().size !== 1) throw new Error('the item is gone')
  await processor.destroy()
  return bytes
}

async function benchHeap() {
  const tokens = 100_000
  const text = tokens * CHARS_PER_TOKEN
  const limit = 3 * text + 4_000_000
  const rows = []
  for (const itemType of /** @type {const} */ (['message', 'function_call'])) {
    const bytes = await heapOfTurn(itemType, tokens)
    rows.push({ item: itemType, 'text KB': text / 1000, 'kept KB': bytes / 1000 })
    expectRatio(`processor: heap of a 100k-token ${itemType} / (3 x text + 4 MB)`, bytes / limit, 1)
  }
  printTable('processor: heap after GC', rows)
}

export async function benchProcessor() {
  await benchDeltas()
  await benchSnapshots()
  await benchHeap()
}
