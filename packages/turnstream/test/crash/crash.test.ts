import { expect, test } from 'vitest'
import { crashRun, TARGETS } from '../../../../scripts/crash/run.mjs'

// The time for 50 kills is a minute where nothing else runs. `npm run crash` kills 500 times, with a new seed.
const PATIENCE = { timeout: 600_000 }

// How much is acknowledged before so few kills depends on the machine. The run rejects with the first violation.
test('L3 L4 L5 acknowledged records survive 5 kills: embedded', PATIENCE, async () => {
  const summary = await crashRun({ target: 'embedded', kills: 5, seed: 'test embedded' })
  expect(summary.kills).toBe(5)
  expect(summary.found).toBeGreaterThanOrEqual(summary.acknowledged)
})

const KILLS = 50

test.concurrent.each(TARGETS)(
  'L3 L4 L5 acknowledged records survive 50 kills: %s',
  { ...PATIENCE, tags: ['slow'] },
  async (target) => {
    const summary = await crashRun({ target, kills: KILLS, seed: `test ${target}` })
    expect(summary.kills).toBe(KILLS)
    expect(summary.acknowledged).toBeGreaterThan(KILLS * 20)
    expect(summary.found).toBeGreaterThanOrEqual(summary.acknowledged)
    expect(summary.orphans).toBeGreaterThan(KILLS)
  },
)
