/** Damage to the data file: what is answered is true, or an error of the store. */

import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import {
  deltas,
  message,
  responseDone,
  turnComplete,
} from '../../../../conformance/src/turn-log/texts.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { DATA_FILE } from '../../../src/log/embedded/data-file.ts'
import { TABLE_NAMES } from '../../../src/log/embedded/environment.ts'
import { folderOfTest, LEASE_MS, openLog } from './support.ts'

const CHILD = fileURLToPath(new URL('damage-child.mjs', import.meta.url))
const DAMAGES = 120
const NO_FINDINGS = { findings: [] }

interface Answer {
  readonly value?: unknown
  readonly error?: string
}

interface Outcome {
  readonly directory: string
  /** Why the store was not opened. */
  readonly opening?: string
  readonly answers: Readonly<Record<string, Answer>>
}

async function writeTurn(log: TurnLog, turnId: string, threadId: string): Promise<void> {
  const lease = await log.create({ turnId, threadId, owner: 'test', request: turnId }, LEASE_MS)
  await appendTo(log, lease, 'events', deltas(turnId, 1, 250))
  await appendTo(log, lease, 'events', deltas(turnId, 251, 400))
  for (let seq = 1; seq <= 5; seq++) {
    const data = message(turnId, `item-${seq}`, `text ${seq} of ${turnId} `.repeat(40))
    await appendTo(log, lease, 'processed', [{ seq, data }])
  }
  if (turnId === 'open') return
  const response = JSON.stringify({ id: turnId, output: [`${turnId} `.repeat(50)] })
  const done = [{ seq: 401, data: responseDone(turnId, 401) }]
  await appendTo(log, lease, 'events', done, { seal: true, response })
  const complete = [{ seq: 6, data: turnComplete(turnId) }]
  await appendTo(log, lease, 'processed', complete, { seal: true })
}

async function writeStore(directory: string): Promise<void> {
  const log = await openLog(directory)
  for (const turnId of ['a', 'b', 'c']) await writeTurn(log, turnId, 'one')
  await log.putThread({ threadId: 'two', title: 'A title' })
  await writeTurn(log, 'd', 'two')
  await writeTurn(log, 'open', 'two')
  await log.close()
}

/** Mulberry32: the same damages every time. */
function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

const PAGE = 4096

function damage(file: Buffer, seed: number): Buffer {
  const random = randomOf(seed)
  const pages = file.length / PAGE
  const page = PAGE * random(pages)
  switch (seed % 6) {
    case 0:
      return file.subarray(0, random(file.length))
    case 1:
      return file.fill(0, page, page + PAGE)
    case 2:
      file.copy(file, page, PAGE * random(pages), PAGE * random(pages) + PAGE)
      return file
    default:
      for (let left = 1 + random(16); left > 0; left--) {
        const at = page + random(PAGE)
        file[at] = (file[at] ?? 0) ^ (1 + random(255))
      }
      return file
  }
}

/** Reads each store in a process; where that dies, goes on with the next in another. */
function runChild(mode: 'verify' | 'read', directories: readonly string[]): (Outcome | 'crash')[] {
  const outcomes: (Outcome | 'crash')[] = []
  while (outcomes.length < directories.length) {
    const rest = directories.slice(outcomes.length)
    const { stdout } = spawnSync(process.execPath, [CHILD, mode, ...rest], {
      encoding: 'utf8',
      maxBuffer: 1e9,
      timeout: 120_000,
    })
    const lines = stdout.split('\n').filter((line) => line !== '')
    outcomes.push(...lines.map((line) => JSON.parse(line) as Outcome))
    // A store may also have damaged the memory of a process that dies with the next one.
    if (lines.length === 0) outcomes.push('crash')
  }
  return outcomes
}

interface Listed {
  readonly threadId: string
  readonly turnId?: string
  readonly damaged?: true
}

/** A list marks what is damaged, and has all the rest. */
function isMarked({ value }: Answer, truth: Answer | undefined): boolean {
  const { items } = (value ?? {}) as { items?: readonly Listed[] }
  const { items: expected = [] } = (truth?.value ?? {}) as { items?: readonly Listed[] }
  if (items?.length !== expected.length) return false
  const intact = items.filter(({ damaged }) => damaged !== true)
  const texts = new Set(expected.map((item) => JSON.stringify(item)))
  return intact.length < items.length && intact.every((item) => texts.has(JSON.stringify(item)))
}

/** What is answered besides the truth, errors of the store, and marks of damage. */
function wrongAnswers({ answers }: Outcome, truth: Outcome): string[] {
  const wrong = Object.entries(answers).filter(([name, answer]) => {
    const expected = truth.answers[name]
    if (JSON.stringify(answer) === JSON.stringify(expected)) return false
    return answer.error !== 'STORE_CORRUPT' && !isMarked(answer, expected)
  })
  return wrong.map(([name]) => name)
}

test(`${DAMAGES} damages: true answers or STORE_ errors, and all others are found by verification`, {
  timeout: 300_000,
  tags: ['slow'],
}, async () => {
  const folder = folderOfTest()
  const whole = join(folder, 'whole')
  await writeStore(whole)
  const copies = Array.from({ length: DAMAGES }, (_, seed) => {
    const copy = join(folder, `${seed}`)
    cpSync(whole, copy, { recursive: true })
    const file = join(copy, DATA_FILE)
    writeFileSync(file, damage(readFileSync(file), seed))
    return copy
  })
  const [intact, ...verified] = runChild('verify', [whole, ...copies])
  expect(intact).toMatchObject({ answers: { findings: [] } })
  // Reading a store changes it.
  const [truth, ...outcomes] = runChild('read', [whole, ...copies])
  if (truth === undefined || truth === 'crash') throw new Error('the whole store cannot be read')
  expect(truth.opening).toBeUndefined()
  let crashes = 0
  const counts = { refused: 0, differing: 0 }
  for (const [seed, outcome] of outcomes.entries()) {
    const found = verified[seed]
    if (found === undefined || found === 'crash') throw new Error(`verifying ${seed} crashed`)
    const isFound = found.opening !== undefined || !isDeepStrictEqual(found.answers, NO_FINDINGS)
    if (outcome === 'crash') {
      crashes += 1
      expect([seed, isFound]).toEqual([seed, true])
      continue
    }
    const { opening = 'STORE_', answers } = outcome
    expect([seed, opening]).toEqual([seed, expect.stringMatching(/^STORE_/)])
    if (outcome.opening !== undefined) counts.refused += 1
    if (JSON.stringify(answers) !== JSON.stringify(truth.answers)) counts.differing += 1
    const wrong = wrongAnswers(outcome, truth)
    if (wrong.length === 0) continue
    // Nothing tells how many snapshots a running turn has.
    expect([seed, wrong, isFound]).toEqual([seed, ['snapshot open'], true])
  }
  // LMDB dies of some damage to the pages of logs, which are not verified when a store is opened.
  expect(crashes).toBeLessThanOrEqual(DAMAGES / 20)
  // The damages do reach what is stored.
  expect(counts.refused).toBeGreaterThan(DAMAGES / 6)
  expect(counts.differing).toBeGreaterThan(counts.refused + 5)
})

/** As the version before checksums stored it. */
async function toFormat1(directory: string): Promise<void> {
  const { open } = await import('lmdb')
  const path = join(directory, DATA_FILE)
  const root = open({ path, noSubdir: true, encoding: 'string', maxDbs: TABLE_NAMES.length + 1 })
  for (const name of TABLE_NAMES) {
    const table = root.openDB<string>({ name, encoding: 'string' })
    for (const { key, value } of [...table.getRange({})]) await table.put(key, value.slice(8))
    if (name === 'store') await table.put('format', '1')
  }
  const chunks = root.openDB<Uint8Array>({ name: 'chunks', encoding: 'binary' })
  for (const { key, value } of [...chunks.getRange({})]) {
    await chunks.put(key, Uint8Array.from(value.subarray(4)))
  }
  await root.close()
}

test('a store of format 1 is rewritten with all its data when it is opened', async () => {
  const folder = folderOfTest()
  const [before, old] = [join(folder, 'before'), join(folder, 'old')]
  await writeStore(before)
  cpSync(before, old, { recursive: true })
  await toFormat1(old)
  const [expected, migrated] = runChild('read', [before, old]) as Outcome[]
  expect(expected?.opening).toBeUndefined()
  expect(migrated?.opening).toBeUndefined()
  expect(migrated?.answers).toEqual(expected?.answers)
  // The second time there is nothing to do.
  expect((runChild('read', [old])[0] as Outcome).answers).toEqual(expected?.answers)
})
