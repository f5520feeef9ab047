// Q: does the cost of what a caller chooses grow in proportion? Load: requests, answers, histories, streams, schemas,
//     cassettes and markdown of some size, and of ten times that size, which may cost fifteen times as much. CPU
//     time of the process, all threads.
//     `packages/turnstream/test/server/limits/chosen-cost.test.ts` counts the steps of the same inputs.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { growthInputs } from './growth-inputs.mjs'
import { expectRatio, measure, nsOf, printTable } from './measure.mjs'

const FACTOR = 10
const LIMIT = 15
/** How often the small one runs in a sample. */
const REPEATED = 3

/** @param {import('./growth-inputs.mjs').GrowingInput} input */
async function measureInput({ name, size, prepare }) {
  const small = await prepare(size)
  const large = await prepare(size * FACTOR)
  const figures = await measure(
    [
      {
        name: 'small',
        async run() {
          for (let each = 0; each < REPEATED; each++) await small()
          return REPEATED
        },
      },
      {
        name: 'large',
        async run() {
          await large()
          return 1
        },
      },
    ],
    { rounds: 9, warmup: 1 },
  )
  const [one, ten] = [nsOf(figures, 'small') / 1e6, nsOf(figures, 'large') / 1e6]
  expectRatio(`growth: ${name}`, ten / one, LIMIT, FACTOR)
  return { input: name, size, ms: one, 'ms x10': ten, ratio: ten / one }
}

export async function benchGrowth() {
  const directory = await mkdtemp(join(tmpdir(), 'turnstream-growth-'))
  const { inputs, close } = await growthInputs(directory)
  try {
    const rows = []
    for (const input of inputs) rows.push(await measureInput(input))
    printTable('growth: CPU of an input and of one ten times as large (ms)', rows)
  } finally {
    await close()
    await rm(directory, { recursive: true })
  }
}
