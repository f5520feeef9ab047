// @module-tag slow
/** Reads of long turns share the event loop with everybody else. */

import { describe, expect, test } from 'vitest'
import { endOrphan } from '../../../src/server.ts'
import { openLog, STORES } from '../streams/server.ts'
import { startServer } from '../support.ts'
import { writeLongTurn } from './long-turns.ts'
import { type LoopGaps, loopGaps } from './loop-gap.ts'

const DELTAS = 40_000

/** A busy machine may stop the whole process for so long. */
const FLOOR_MS = 120

async function text(url: string): Promise<string> {
  return await (await fetch(url)).text()
}

/** Whether the loop was held for no more than a small part of the work. */
function isShared({ longest, total }: LoopGaps): boolean {
  return longest < Math.max(FLOOR_MS, total / 6)
}

/** A busy machine, or a collection of garbage, may also stop the process for longer, but not in every round. */
async function checkShared(work: (round: number) => Promise<unknown>): Promise<void> {
  const rounds: LoopGaps[] = []
  while (rounds.length < 3 && !rounds.some(isShared)) {
    rounds.push(await loopGaps(() => work(rounds.length)))
  }
  expect(rounds).toSatisfy((all: LoopGaps[]) => all.some(isShared))
}

const PATHS = {
  'the run': '/api/v2/runs/long',
  'the stream of its events': '/api/v2/stream/long',
}

describe.each(STORES)('while a long turn is read from the %s store', (store) => {
  test.each(Object.entries(PATHS))(
    'as %s, other work continues',
    async (_name, path) => {
      const log = await openLog(store)
      await writeLongTurn(log, { turnId: 'long', deltas: DELTAS })
      const { url } = await startServer({ log })
      await checkShared(() => Promise.all(Array.from({ length: 4 }, () => text(`${url}${path}`))))
    },
    60_000,
  )
})

test('other work continues while a long orphaned turn is ended', async () => {
  const log = await openLog()
  const turnIds = ['long-0', 'long-1', 'long-2']
  for (const turnId of turnIds) {
    await writeLongTurn(log, { turnId, deltas: DELTAS, isSealed: false, leaseMs: 0 })
  }
  await checkShared(async (round) => {
    const turnId = `long-${round}`
    await endOrphan(log, turnId, { owner: 'reaper', leaseMs: 60_000 })
    expect(await log.getTurn(turnId)).toMatchObject({ sealed: true })
  })
}, 60_000)
