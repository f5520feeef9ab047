import { createClient } from '@redis/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import type { Script } from '../../../src/log/redis/client.ts'
import { RedisKeys } from '../../../src/log/redis/keys.ts'
import { DROP, INDEX, OPEN_TURN } from '../../../src/log/redis/scripts/thread.ts'
import { CREATE_RUN, CREATE_TURN } from '../../../src/log/redis/scripts/turn.ts'
import { OpenLogs, until } from './support.ts'

const KEEP_MS = 600_000

const server = await startRedis()
const redis = createClient({ url: server.url })
const logs = new OpenLogs({ url: server.url })
const keys = new RedisKeys(logs.prefix)

beforeAll(async () => {
  await redis.connect()
})

afterAll(async () => {
  await logs.close()
  redis.destroy()
  await server.stop()
})

/** One step of a process that makes a turn, and makes a pause after it. */
async function step(script: Script, keys: string[], args: (string | number)[]): Promise<unknown> {
  return redis.eval(script.lua, { keys, arguments: args.map(String) })
}

test('L9 a slowly created turn stays in the index of open turns', async () => {
  const log = await logs.open()
  const { run, turn, thread } = {
    run: keys.run('slow'),
    turn: keys.turn('slow'),
    thread: keys.thread('thread'),
  }
  const ofThread = [thread.record, thread.turns, thread.replaced]
  await step(OPEN_TURN, ofThread, ['slow', 5, KEEP_MS, '', 'beef', '', ''])
  await step(
    CREATE_RUN,
    [run.state, run.events, run.meta, run.fence],
    ['slow', 5, KEEP_MS, '', 'cafe'],
  )
  const past = Date.now() - 1000
  await step(INDEX, [keys.leases], [past, 'slow', KEEP_MS])
  // Another process looks, finds no turn, and clears the index.
  expect(await log.expired(10)).toEqual([])
  expect(await redis.zScore(keys.leases, 'slow')).toBeNull()
  const fields = ['runId', 'slow', 'threadId', 'thread', 'ordinal', '1', 'owner', 'a']
  const late = ['nonce', 5, KEEP_MS, past, 'cafe', 1, ...fields]
  expect(await step(CREATE_TURN, [turn.state, turn.processed, turn.meta], late)).toBe('late')
  expect(await log.getTurn('slow')).toBeUndefined()
  // So it begins again, and dies at once.
  await log.create({ turnId: 'slow', threadId: 'thread', owner: 'a' }, 5)
  await until(async () => (await log.expired(10)).includes('slow'))
})

test('L9 the index keeps a turn whose score changed since it was read', async () => {
  const seen = Date.now() - 1000
  await step(INDEX, [keys.leases], [seen, 'moved', KEEP_MS])
  await step(INDEX, [keys.leases], [Date.now() + KEEP_MS, 'moved', KEEP_MS])
  expect(await step(DROP, [keys.leases], ['moved', seen])).toBe(0)
  expect(await redis.zScore(keys.leases, 'moved')).not.toBeNull()
})
