import { expect, test } from 'vitest'
import { crashRun, TARGETS } from '../../scripts/crash/run.mjs'

// `npm run crash` does the same ten times as long, and with another seed every time.
const KILLS = 50

// A minute where nothing else runs.
const LIMIT_MS = 600_000

test.concurrent.each(TARGETS)(
  'L3 L4 L5 what was acknowledged survives 50 kills: %s',
  async (target) => {
    const summary = await crashRun({ target, kills: KILLS, seed: `test ${target}` })
    expect(summary.kills).toBe(KILLS)
    expect(summary.acknowledged).toBeGreaterThan(KILLS * 20)
    expect(summary.found).toBeGreaterThanOrEqual(summary.acknowledged)
    expect(summary.orphans).toBeGreaterThan(KILLS)
  },
  LIMIT_MS,
)
