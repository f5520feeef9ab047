import { describe, expect, test } from 'vitest'
import {
  describeTurnLog,
  fakeClock,
  type TurnLogUnderTest,
} from '../../../conformance/src/index.ts'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import { delta, deltas, eventsUpTo, outputsOf } from '../../../conformance/src/turn-log/texts.ts'
import type { StreamEvent } from '../../../core/src/index.ts'
import { MemoryLog } from '../../src/server.ts'
import { ofTenant } from './of-tenant.ts'

const runner = { describe, test }

async function underTest(retentionMs: number): Promise<TurnLogUnderTest> {
  const clock = fakeClock()
  clock.step(1e12) // time of day and monotonic time differ, as on any machine
  const log = new MemoryLog({ retentionMs, clock })
  return { log, elapse: (ms) => clock.advance(ms), dispose: () => log.close() }
}

describeTurnLog('MemoryLog', ({ retentionMs }) => underTest(retentionMs), runner)

describeTurnLog(
  'MemoryLog of a tenant',
  async ({ retentionMs }) => ofTenant(await underTest(retentionMs), 'acme'),
  runner,
)

test('L3 an event that is too long or has no JSON ends its writer and leaves nothing', async () => {
  const log = new MemoryLog()
  const lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'me' }, 1000)
  const [first, second] = deltas('turn', 1, 2).map(({ data }) => JSON.parse(data) as StreamEvent)
  const circular: Record<string, unknown> = { ...second, type: 'x' }
  circular['payload'] = circular
  const long = JSON.parse(delta('turn', 2, 'x'.repeat(64 * 1024 * 1024))) as StreamEvent
  for (const [wrong, error] of [
    [circular as unknown as StreamEvent, TypeError],
    [long, 'Invalid record'],
  ] as const) {
    const writer = log.open(lease, 'events')
    writer.write(first as StreamEvent)
    writer.write(wrong)
    await expect(writer.flush()).rejects.toThrow(error)
    expect(await log.storedBytes()).toBe(0)
  }
  await appendTo(log, lease, 'events', eventsUpTo('turn', 2), { seal: true })
})

test('a turn created while its thread is deleted recreates the thread', async () => {
  const log = new MemoryLog()
  const turn = { threadId: 'thread', owner: 'me' }
  await log.create({ ...turn, turnId: 'first' }, 1000)
  const deleted = log.deleteThread('thread')
  await log.create({ ...turn, turnId: 'second' }, 1000)
  expect(await deleted).toBe(true)
  expect((await log.listTurns('thread')).items).toMatchObject([{ turnId: 'second', ordinal: 1 }])
})

describe('content with a limit', () => {
  const CONTENT_MS = 600_000

  async function ended(log: MemoryLog, turnId: string) {
    const turn = { turnId, threadId: turnId, owner: 'me', contentMs: CONTENT_MS }
    const lease = await log.create(turn, 60_000)
    await appendTo(log, lease, 'events', eventsUpTo(turnId, 3), { seal: true, response: '{}' })
    await appendTo(log, lease, 'processed', outputsOf(turnId, 'a'), { seal: true })
  }

  test('is dropped within a minute, also without reads, in short steps', async () => {
    const clock = fakeClock()
    const log = new MemoryLog({ clock })
    for (let index = 0; index < 2500; index++) await ended(log, `turn-${index}`)
    const kept = await log.storedBytes()
    await clock.advance(CONTENT_MS + 60_000)
    await log.orphans(1)
    const left = await log.storedBytes()
    expect(left).toBeGreaterThan(0)
    expect(left).toBeLessThan(kept)
    for (let call = 0; call < 5; call++) await log.orphans(1)
    expect(await log.storedBytes()).toBe(0)
  })

  test.each([-3_600_000, 3_600_000])('keeps its time when the clock steps by %d ms', async (ms) => {
    const clock = fakeClock(10_000_000)
    const log = new MemoryLog({ clock })
    clock.step(ms)
    await ended(log, 'turn')
    await clock.advance(CONTENT_MS - 1)
    expect((await log.getTurn('turn'))?.expired).toBe(false)
    await clock.advance(1)
    expect((await log.getTurn('turn'))?.expired).toBe(true)
  })
})
