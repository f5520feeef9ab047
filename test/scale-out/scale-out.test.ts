import { expect, test } from 'vitest'
import { scaleOutRun } from '../../scripts/scale-out/run.mjs'

// `npm run scale-out` does the same 50 times, and with another seed every time.
const KILLS = 10

// Half a minute where nothing else runs.
const LIMIT_MS = 600_000

test(
  'D5 L5 readers of another gateway see all of a turn and its truthful end when its gateway is killed',
  async () => {
    const { events, endedAfterMs } = await scaleOutRun({ kills: KILLS, seed: 'test' })
    expect(endedAfterMs).toHaveLength(KILLS)
    expect(events).toBeGreaterThan(KILLS * 10)
  },
  LIMIT_MS,
)
