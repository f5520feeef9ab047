// Simulates many users of several gateways, with kills, disconnects, slow readers, deletions, Redis outages and clock
// steps. Verifies that no turn hangs or is lost, and that memory, descriptors and event loop delay stay flat.
//
//     npm run soak -- --minutes 30 --seed 7 --svg soak.svg
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { plot } from './soak/plot.mjs'
import { soakRun } from './soak/run.mjs'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    seed: { type: 'string' },
    svg: { type: 'string' },
    without: { type: 'string', multiple: true, default: [] },
  },
})
const minutes = Number(values.minutes)
const seed = values.seed ?? String(Math.floor(Math.random() * 1e9))
if (!(minutes > 0)) {
  console.error(
    'usage: npm run soak -- [--minutes 30] [--seed n] [--svg file] [--without kills|steps|outages]',
  )
  process.exit(2)
}

/** @param {ReadonlyMap<string, number>} counts */
function describe(counts) {
  return [...counts].map(([name, count]) => `${count} ${name}`).join(', ')
}

try {
  const { series, incidents, counts } = await soakRun({
    minutes,
    seed,
    without: values.without,
    onTick: (seconds, counts) => {
      if (process.stdout.isTTY) {
        process.stdout.write(`\r${seconds.toFixed(0)} s: ${describe(counts)}`.slice(0, 120))
      }
    },
  })
  if (process.stdout.isTTY) process.stdout.write('\r\u001b[K')
  if (values.svg !== undefined) writeFileSync(values.svg, plot(series, incidents))
  console.log(`${minutes} minutes (seed ${seed}): ${describe(counts)}`)
  for (const { name, growth } of series) {
    for (const { name: measure, first, last, isFlat } of growth) {
      const ratio = (last / first).toFixed(2)
      const verdict = isFlat === undefined ? 'not judged: busy machine' : isFlat ? 'flat' : 'GREW'
      console.log(
        `${name}: ${measure} ${first.toFixed(1)} -> ${last.toFixed(1)} (${ratio}) ${verdict}`,
      )
    }
  }
  if (series.some(({ growth }) => growth.some(({ isFlat }) => isFlat === false))) process.exit(1)
} catch (error) {
  console.error(`\n${error instanceof Error ? error.message : String(error)}`)
  console.error(`again: npm run soak -- --minutes ${minutes} --seed ${seed}`)
  process.exit(1)
}
