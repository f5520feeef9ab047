/** Records in Redis that something else has changed: only these are refused, and they can be deleted. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { redisCommand, startRedis } from '../../../../../scripts/redis-server.mjs'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { createTurn, endTurn } from '../embedded/support.ts'
import { OpenLogs } from './support.ts'

let server: Awaited<ReturnType<typeof startRedis>>
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

const CORRUPT = { code: 'STORE_CORRUPT' }

/** Three turns in the threads `one`, `two`, `two`, and commands to the server after these. */
async function damagedLog(...commands: readonly (readonly string[])[]) {
  const logs = new OpenLogs({ url: server.url })
  const log = await logs.open()
  for (const [turnId, threadId] of [
    ['a', 'one'],
    ['b', 'two'],
    ['c', 'two'],
  ] as const) {
    await endTurn(log, await createTurn(log, turnId, { threadId }), { events: 1, processed: 1 })
  }
  const { port } = server
  for (const command of commands) {
    const args = command.map((each) => each.replace('codex:', `${logs.prefix}:`))
    await redisCommand({ host: '127.0.0.1', port }, ...args)
  }
  return { log, close: () => logs.close() }
}

async function threadMarks(log: TurnLog): Promise<string[]> {
  const { items } = await log.listThreads()
  return items.map(({ threadId, damaged }) => (damaged ? `${threadId}!` : threadId)).toSorted()
}

async function turnMarks(log: TurnLog): Promise<string[]> {
  const { items } = await log.listTurns('two')
  return items.map(({ turnId, ordinal, damaged }) => `${turnId}${ordinal}${damaged ? '!' : ''}`)
}

function ofAnotherType(key: string): string[][] {
  return [
    ['DEL', key],
    ['SET', key, 'x'],
  ]
}

const DAMAGED_TURNS = [
  { name: 'state of log B', commands: [['SET', 'codex:turn:{b}:state', 'x']] },
  { name: 'state of log A', commands: [['SET', 'codex:run:{b}:state', 'x']] },
  { name: 'outcome', commands: [['HSET', 'codex:run:{b}:meta', 'outcome', 'x']] },
  { name: 'record without its thread', commands: [['HDEL', 'codex:turn:{b}:meta', 'threadId']] },
  { name: 'record of another type', commands: ofAnotherType('codex:turn:{b}:meta') },
  { name: 'run of another type', commands: ofAnotherType('codex:run:{b}:meta') },
]

test.each(DAMAGED_TURNS)(
  'a turn with a damaged $name is listed as such, and can be deleted',
  async ({ commands }) => {
    const { log, close } = await damagedLog(...commands)
    try {
      expect(await turnMarks(log)).toEqual(['b1!', 'c2'])
      await expect(log.getTurn('b')).rejects.toMatchObject(CORRUPT)
      expect(await log.getTurn('c')).toMatchObject({ turnId: 'c' })
      expect(await log.deleteTurn('b')).toBe(true)
      expect(await log.getTurn('b')).toBeUndefined()
      expect(await turnMarks(log)).toEqual(['c2'])
      await createTurn(log, 'b', { threadId: 'two' })
      expect(await turnMarks(log)).toEqual(['c2', 'b3'])
    } finally {
      await close()
    }
  },
)

const DAMAGED_THREADS = [
  { name: 'time', commands: [['HSET', 'codex:thread:{two}', 'createdAt', 'x']] },
  { name: 'record of another type', commands: ofAnotherType('codex:thread:{two}') },
]

test.each(DAMAGED_THREADS)(
  'a thread with a damaged $name is listed as such, and can be deleted',
  async ({ commands }) => {
    const { log, close } = await damagedLog(...commands, ['SET', 'codex:turn:{b}:state', 'x'])
    try {
      expect(await threadMarks(log)).toEqual(['one', 'two!'])
      await expect(log.getThread('two')).rejects.toMatchObject(CORRUPT)
      expect(await log.countThreads()).toBe(2)
      expect(await log.deleteThread('two')).toBe(true)
      expect(await threadMarks(log)).toEqual(['one'])
      expect(await log.getTurn('b')).toBeUndefined()
      expect(await log.getTurn('c')).toBeUndefined()
      expect(await log.deleteThread('two')).toBe(false)
      await createTurn(log, 'd', { threadId: 'two' })
      expect(await threadMarks(log)).toEqual(['one', 'two'])
    } finally {
      await close()
    }
  },
)

test('a log of another type is damaged, and its turn can be deleted', async () => {
  const { log, close } = await damagedLog(...ofAnotherType('codex:turn:{b}:processed'))
  try {
    await expect(log.snapshot('b')).rejects.toMatchObject(CORRUPT)
    expect(await turnMarks(log)).toEqual(['b1', 'c2'])
    expect(await log.deleteTurn('b')).toBe(true)
    expect(await turnMarks(log)).toEqual(['c2'])
  } finally {
    await close()
  }
})

test('a thread whose list of turns has another type can be deleted', async () => {
  const { log, close } = await damagedLog(...ofAnotherType('codex:thread:{two}:turns'))
  try {
    expect(await threadMarks(log)).toEqual(['one', 'two'])
    await expect(log.listTurns('two')).rejects.toMatchObject(CORRUPT)
    expect(await log.deleteThread('two')).toBe(true)
    expect(await threadMarks(log)).toEqual(['one'])
    await createTurn(log, 'd', { threadId: 'two' })
    expect(await turnMarks(log)).toEqual(['d1'])
  } finally {
    await close()
  }
})
