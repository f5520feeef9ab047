import { expect, test } from 'vitest'
import { scaleOutRun } from '../../../../scripts/scale-out/run.mjs'

// Half a minute for 10 kills where nothing else runs. `npm run scale-out` kills 50 times, with a new seed.
const PATIENCE = { timeout: 600_000 }

const NAME =
  'D5 L5 readers of another gateway see all of a turn and its truthful end when its gateway is killed'

test(`${NAME} once`, PATIENCE, async () => {
  const { events, endedAfterMs } = await scaleOutRun({ kills: 1, seed: 'test' })
  expect(endedAfterMs).toHaveLength(1)
  expect(events).toBeGreaterThan(10)
})

test(`${NAME} 10 times`, { ...PATIENCE, tags: ['slow'] }, async () => {
  const { events, endedAfterMs } = await scaleOutRun({ kills: 10, seed: 'test' })
  expect(endedAfterMs).toHaveLength(10)
  expect(events).toBeGreaterThan(100)
})
