// Repeatedly kills the gateway that runs a turn while readers of another gateway follow it, and verifies that they
// see all of it and a truthful end.
//
//     npm run scale-out -- --kills 50 --seed 7
import { parseArgs } from 'node:util'
import { scaleOutRun } from './scale-out/run.mjs'

const { values } = parseArgs({
  options: { kills: { type: 'string', default: '50' }, seed: { type: 'string' } },
})
const kills = Number(values.kills)
const seed = values.seed ?? String(Math.floor(Math.random() * 1e9))
if (!Number.isSafeInteger(kills) || kills < 1) {
  console.error('usage: npm run scale-out -- [--kills 50] [--seed n]')
  process.exit(2)
}

try {
  const { events, endedAfterMs } = await scaleOutRun({
    kills,
    seed,
    onKill: (kill) => {
      if (process.stdout.isTTY) process.stdout.write(`\r${kill} kills\u001b[K`)
    },
  })
  const sorted = endedAfterMs.toSorted((a, b) => a - b)
  const middle = sorted[Math.floor(sorted.length / 2)]?.toFixed(0)
  const latest = sorted.at(-1)?.toFixed(0)
  if (process.stdout.isTTY) process.stdout.write('\r')
  console.log(
    `${kills} kills, ${events} events read, nothing lost; readers saw the end ${middle} ms after the ` +
      `kill, ${latest} ms at the latest (seed ${seed})`,
  )
} catch (error) {
  console.error(`\n${String(error)}`)
  console.error(`again: npm run scale-out -- --kills ${kills} --seed ${seed}`)
  process.exit(1)
}
