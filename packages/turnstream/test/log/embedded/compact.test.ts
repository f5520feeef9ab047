import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readdirSync, watch } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { counted, delta, deltas } from '../../../../conformance/src/turn-log/texts.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { compactEmbeddedLog } from '../../../src/log/embedded/compact.ts'
import { createTurn, endTurn, folderOfTest, openLog, readEvents } from './support.ts'

const CLI = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url))
const TURNS = 16
const EVENTS = 600
const KILLS = 10
const YEAR_MS = 365 * 24 * 60 * 60 * 1000

/** Text that does not compress: what is stored then takes pages of its own. */
function noise(): string {
  return Array.from({ length: 40 }, () => Math.random().toString(36).slice(2)).join('')
}

/** A store of turns with much text, some of them open, from which half was deleted. */
async function usedStore({ openEvery }: { openEvery: number }) {
  const directory = folderOfTest()
  const log = await openLog(directory)
  const texts = new Map<string, string[]>()
  for (let turn = 1; turn <= TURNS; turn++) {
    const turnId = `turn-${turn}`
    const lease = await createTurn(log, turnId)
    const records = counted(1, EVENTS, (seq) => delta(turnId, seq, noise()))
    for (let from = 0; from < EVENTS; from += 100) {
      await appendTo(log, lease, 'events', records.slice(from, from + 100))
    }
    if (turn % openEvery !== 0) await endTurn(log, lease, { events: EVENTS + 1, processed: 1 })
    if (turn > TURNS / 2)
      texts.set(
        turnId,
        records.map(({ data }) => data),
      )
  }
  for (let turn = 1; turn <= TURNS / 2; turn++) await log.deleteTurn(`turn-${turn}`)
  await log.close()
  return { directory, texts }
}

async function expectAll(log: TurnLog, texts: ReadonlyMap<string, readonly string[]>) {
  for (const [turnId, expected] of texts) {
    const found = await readEvents(log, turnId, EVENTS)
    expect(found.map(({ data }) => data)).toEqual(expected)
  }
}

const filesOf = (directory: string) => readdirSync(directory).toSorted()

test('a compacted store can be read, claimed, ended and deleted, and reuses its space', async () => {
  const { directory, texts } = await usedStore({ openEvery: 4 })
  const files = filesOf(directory)
  await compactEmbeddedLog(directory)
  expect(filesOf(directory)).toEqual(files)
  let log = await openLog(directory)
  await expectAll(log, texts)
  for (const turnId of await log.expired(TURNS)) {
    const lease = await log.claim(turnId, 'heir', 60_000)
    await endTurn(log, lease, { events: EVENTS + 1, processed: 1 })
  }
  for (const [turnId] of [...texts].slice(0, 4)) {
    expect(await log.deleteTurn(turnId)).toBe(true)
    texts.delete(turnId)
    const lease = await createTurn(log, `after-${turnId}`)
    await appendTo(log, lease, 'events', deltas(turnId, 1, 256))
  }
  await log.close()
  await compactEmbeddedLog(directory)
  log = await openLog(directory)
  await expectAll(log, texts)
  for (const [turnId] of texts) expect(await log.deleteTurn(turnId)).toBe(true)
})

test('the first commit to a compacted store may remove everything', async () => {
  const { directory, texts } = await usedStore({ openEvery: Infinity })
  await compactEmbeddedLog(directory)
  // Who opens it later than anything is kept begins with that.
  const log = await openLog(directory, { clock: fakeClock(Date.now() + YEAR_MS) })
  const lease = await createTurn(log, 'next')
  await appendTo(log, lease, 'events', deltas('next', 1, 3))
  for (const [turnId] of texts) expect(await log.getTurn(turnId)).toBeUndefined()
  expect(await readEvents(log, 'next', 3)).toHaveLength(3)
})

/** Compacts in a process of its own, which is killed at a change of the directory, counted from 1. */
async function compactUntil(directory: string, change: number) {
  const child = spawn(process.execPath, [CLI, 'compact', directory], { stdio: 'ignore' })
  let changes = 0
  const watcher = watch(directory, () => {
    changes += 1
    if (changes === change) child.kill('SIGKILL')
  })
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  watcher.close()
  return { end: signal ?? code, changes }
}

test('a compaction killed at any moment has changed nothing or is done', {
  timeout: 60_000,
  tags: ['slow'],
}, async () => {
  const { directory, texts } = await usedStore({ openEvery: 4 })
  const files = filesOf(directory)
  const copied = () => {
    const copy = folderOfTest()
    cpSync(directory, copy, { recursive: true })
    return copy
  }
  const whole = await compactUntil(copied(), Infinity)
  expect(whole.end).toBe(0)
  const ends: unknown[] = []
  let leftovers = 0
  for (let kill = 0; kill < KILLS; kill++) {
    const copy = copied()
    const { end } = await compactUntil(copy, 1 + Math.floor((kill * whole.changes) / KILLS))
    ends.push(end)
    if (filesOf(copy).length > files.length) leftovers += 1
    const log = await openLog(copy)
    expect(filesOf(copy)).toEqual(files)
    await expectAll(log, texts)
    for (const [turnId] of texts) expect(await log.deleteTurn(turnId)).toBe(true)
    await log.close()
  }
  expect(ends).toContain('SIGKILL')
  expect(leftovers).toBeGreaterThan(0)
})
