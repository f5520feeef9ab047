import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { counted, delta, message } from '../../../../conformance/src/turn-log/texts.ts'
import { createTurn, endTurn, folderOfTest, openLog } from './support.ts'

const TOKENS = 10_000
const TOKEN = 'abcd'
const TURNS = 20

function sizeOf(directory: string): number {
  return readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0)
}

test('L7 the events of finished turns take less than 4 times their text, fed one by one', {
  timeout: 60_000,
  tags: ['slow'],
}, async () => {
  const directory = folderOfTest()
  const log = await openLog(directory)
  const finished = Array.from({ length: TURNS }, async () => {
    const turnId = crypto.randomUUID()
    const lease = await createTurn(log, turnId)
    for (const record of counted(1, TOKENS, (seq) => delta(turnId, seq, TOKEN))) {
      await appendTo(log, lease, 'events', [record])
    }
    await endTurn(log, lease, { events: TOKENS + 1, processed: 1 })
  })
  await Promise.all(finished)
  await log.close()
  expect(sizeOf(directory)).toBeLessThan(4 * TURNS * TOKENS * TOKEN.length)
})

test('L6 the snapshots of finished turns take less than 1.3 times their text', {
  timeout: 60_000,
}, async () => {
  const directory = folderOfTest()
  const log = await openLog(directory)
  for (let index = 0; index < TURNS; index++) {
    const turnId = crypto.randomUUID()
    const lease = await createTurn(log, turnId)
    const steps = 40
    for (let step = 1; step <= steps; step++) {
      const content = TOKEN.repeat((TOKENS / steps) * step)
      const data = message(turnId, 'item', content)
      await appendTo(log, lease, 'processed', [{ seq: step, data }])
    }
    await endTurn(log, lease, { events: 1, processed: steps + 1 })
  }
  expect(await log.storedBytes()).toBeLessThan(1.3 * TURNS * TOKENS * TOKEN.length)
  await log.close()
  expect(sizeOf(directory)).toBeLessThan(1.6 * TURNS * TOKENS * TOKEN.length)
})
