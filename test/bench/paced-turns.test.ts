import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Appendable, noLog, PacedTurns } from '../../bench/paced-turns.mjs'
import type { NewRecord } from '../../src/log/turn-log.ts'

beforeEach(() => {
  vi.useFakeTimers()
})

afterEach(() => {
  vi.useRealTimers()
})

interface Appended extends NewRecord {
  readonly log: string
  readonly seal: boolean
}

function recordingLog() {
  const turns = new Map<string, Appended[]>()
  const log: Appendable = {
    async create(turn, leaseMs) {
      turns.set(turn.turnId, [])
      return noLog.create(turn, leaseMs)
    },
    async append({ turnId }, log, records, { seal = false } = {}) {
      expect(records).toHaveLength(1)
      for (const record of records) turns.get(turnId)?.push({ ...record, log, seal })
      return ''
    },
  }
  return { log, turns }
}

const TEXTS = Array.from({ length: 4 }, (_, turn) =>
  ['a', 'b', 'c', 'd', 'end'].map((text) => text + turn),
)

async function paced(log: Appendable, seconds: number, rate: number) {
  const turns = new PacedTurns(log, TEXTS)
  const run = turns.run(seconds, rate)
  await vi.advanceTimersByTimeAsync(seconds * 1000 + 10)
  await run
  await turns.settle()
  return turns
}

test('it appends as often as it was told, however long it goes on', async () => {
  const { log } = recordingLog()
  expect((await paced(log, 2, 40)).appended).toBe(80)
  expect((await paced(noLog, 3, 1000)).appended).toBe(3000)
})

test('turns say what they have to say in order, one record to an append', async () => {
  const { log, turns } = recordingLog()
  await paced(log, 2, 40)
  for (const appended of turns.values()) {
    const events = appended.filter(({ log }) => log === 'events')
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
    const said = events.map(({ data }) => data.slice(0, -1)).join(' ')
    expect('a b c d end a b c d end').toContain(said)
  }
})

test('a turn that has said everything is sealed in both logs, and another takes its place', async () => {
  const { log, turns } = recordingLog()
  await paced(log, 2, 40)
  const ended = [...turns.values()].filter((appended) => appended.some(({ seal }) => seal))
  expect(ended).toHaveLength(16)
  for (const appended of ended) {
    expect(appended.slice(-2)).toMatchObject([
      { log: 'events', data: expect.stringMatching(/^end/), seal: true },
      { log: 'processed', seq: 1, seal: true },
    ])
  }
  expect(turns.size).toBe(ended.length + TEXTS.length)
})

test('the turns that are under way are in different parts of their lives', async () => {
  const { log, turns } = recordingLog()
  await paced(log, 0.1, 40)
  const first = [...turns.values()].map(([record]) => record?.data)
  expect(first).toEqual(['a0', 'b1', 'c2', 'd3'])
})

test('an append that fails is heard of in the end', async () => {
  const failing: Appendable = { ...noLog, append: () => Promise.reject(new Error('full')) }
  await expect(paced(failing, 1, 10)).rejects.toThrow('full')
})
