import { describe, expect, test } from 'vitest'
import { MemoryLog } from '../../src/log/memory-log.ts'
import type { StreamEvent } from '../../src/protocol/stream-event.ts'
import { describeTurnLog, fakeClock, type TurnLogUnderTest } from '../../src/testing/index.ts'
import { appendTo } from '../../src/testing/turn-log/append.ts'
import { delta, deltas, eventsUpTo } from '../../src/testing/turn-log/texts.ts'
import { ofTenant } from './of-tenant.ts'

const runner = { describe, test }

async function underTest(retentionMs: number): Promise<TurnLogUnderTest> {
  const clock = fakeClock()
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
    expect(await log.bytesKept()).toBe(0)
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
