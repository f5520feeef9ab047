/** Threads of vendors' clients on the stores that outlive a process. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../scripts/redis-server.mjs'
import { folderOfTest, openLog } from '../log/embedded/support.ts'
import { OpenLogs } from '../log/redis/support.ts'
import { DOOR_NAMES } from './vendor-doors.ts'
import { load, outputLine, say, stage, toolLoop } from './vendor-stage.ts'

let redis: Awaited<ReturnType<typeof startRedis>>
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

test.each(DOOR_NAMES)('%s continues on another gateway with the same Redis', async (door) => {
  const logs = new OpenLogs({ url: redis.url })
  onTestFinished(() => logs.close())
  const [call, answer] = toolLoop()
  const one = await stage([call ?? [], say('Rain.')], { log: await logs.open() })
  const other = await stage([answer ?? []], { log: await logs.open() })
  const said = one.open(door)
  const asked = await said.ask('Weather?')
  const moved = other.open(door, { messages: said.messages, previous: asked.turnId })
  const told = await moved.answerCalls(asked.callIds, 'sun')
  const back = one.open(door, { messages: moved.messages, previous: told.turnId })
  const again = await back.ask('And tomorrow?')
  const threadId = await one.threadOf(asked)
  expect([await one.threadOf(told), await one.threadOf(again)]).toEqual([threadId, threadId])
  expect((await load(other.server, threadId)).flatMap(outputLine)).toEqual([
    'system: Be short. complete',
    'user: Weather? complete',
    'agent: Let me see.  complete',
    'look_up complete "sun"',
    'agent: Sunny. complete',
    'user: And tomorrow? complete',
    'agent: Rain. complete',
  ])
})

test('concurrent requests on two gateways are never refused because of their thread', async () => {
  const logs = new OpenLogs({ url: redis.url })
  onTestFinished(() => logs.close())
  const answers = Array.from({ length: 10 }, () => say('So.'))
  const one = await stage(answers, { log: await logs.open() })
  const other = await stage(answers, { log: await logs.open() })
  const said = one.open('messages')
  const first = await said.ask('a')
  const asking = [one, other].flatMap(({ open }) =>
    Array.from({ length: 5 }, (_, at) =>
      open('messages', { messages: said.messages }).ask(`${at}`),
    ),
  )
  const threads = await Promise.all((await Promise.all(asking)).map(one.threadOf))
  // One continues the thread. Most others find it running, or are branches.
  expect(threads).toContain(await one.threadOf(first))
  expect(new Set(threads).size).toBeGreaterThan(1)
})

test('a conversation continues after a restart with the embedded store', async () => {
  const directory = folderOfTest()
  const log = await openLog(directory)
  const before = await stage([say('1')], { log })
  const said = before.open('responses')
  const asked = await said.ask('a')
  const threadId = await before.threadOf(asked)
  await before.server.close()
  await log.close()
  const after = await stage([say('2')], { log: await openLog(directory) })
  const told = await after.open('responses', { messages: said.messages }).ask('b')
  expect(await after.threadOf(told)).toBe(threadId)
})
