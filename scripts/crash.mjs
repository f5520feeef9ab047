// Kills processes, and Redis, at random moments while turns are written, and verifies that the stores keep
// what they promise.
//
//     npm run crash -- --kills 50 --target embedded --seed 7
import { parseArgs } from 'node:util'
import { crashRun, TARGETS } from './crash/run.mjs'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '500' },
    target: { type: 'string', multiple: true },
    seed: { type: 'string' },
  },
})
const kills = Number(values.kills)
const seed = values.seed ?? String(Math.floor(Math.random() * 1e9))
const targets = TARGETS.filter((target) => values.target?.includes(target) ?? true)
const isUsable = Number.isSafeInteger(kills) && kills > 0 && targets.length > 0
if (!isUsable || values.target?.some((name) => !TARGETS.some((target) => target === name))) {
  console.error(`usage: npm run crash -- [--kills 500] [--target ${TARGETS.join('|')}] [--seed n]`)
  process.exit(2)
}

/** @param {import('./crash/run.mjs').Summary} summary */
function describe({ kills, turns, acknowledged, found, orphans }) {
  const records = `${acknowledged} records acknowledged, ${found} found`
  return `${kills} kills, ${turns} turns, ${records}, ${orphans} orphans ended`
}

for (const target of targets) {
  const since = Date.now()
  /** @param {import('./crash/run.mjs').Summary} summary */
  const onKill = (summary) => {
    if (process.stdout.isTTY) process.stdout.write(`\r${target}: ${describe(summary)}\u001b[K`)
  }
  try {
    const summary = await crashRun({ target, kills, seed, onKill })
    const seconds = ((Date.now() - since) / 1000).toFixed(0)
    if (process.stdout.isTTY) process.stdout.write('\r')
    console.log(`${target}: ${describe(summary)}, nothing lost, in ${seconds} s (seed ${seed})`)
  } catch (error) {
    console.error(`\n${target}: ${String(error)}`)
    console.error(`again: npm run crash -- --target ${target} --kills ${kills} --seed ${seed}`)
    process.exit(1)
  }
}
