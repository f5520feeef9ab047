import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { eventsUpTo, message } from '../../../../conformance/src/turn-log/texts.ts'
import { compactEmbeddedLog } from '../../../src/log/embedded/compact.ts'
import { checkTablePages, DATA_FILE } from '../../../src/log/embedded/data-file.ts'
import { Environment } from '../../../src/log/embedded/environment.ts'
import { inspectEmbeddedLog } from '../../../src/log/embedded/inspect.ts'
import { createTurn, endTurn, folderOfTest, openLog } from './support.ts'

const PAGE = 4096
const CORRUPT = { code: 'STORE_CORRUPT' }

/** A closed store with a hundred turns in ten threads, and a turn with large records. */
async function writeStore(): Promise<string> {
  const directory = folderOfTest()
  const log = await openLog(directory)
  for (let number = 0; number < 100; number++) {
    const lease = await createTurn(log, `turn-${number}`, { threadId: `thread-${number % 10}` })
    await endTurn(log, lease, { events: 1, processed: 1 })
  }
  const large = await createTurn(log, 'large')
  await appendTo(log, large, 'events', eventsUpTo('large', 600))
  const data = message('large', 'item', 'text '.repeat(2000))
  await appendTo(log, large, 'processed', [{ seq: 1, data }])
  await endTurn(log, large, { events: 601, processed: 2 })
  await log.close()
  return directory
}

/** Why the file is refused after a change, if it is. */
async function refusal(file: string, content: Buffer): Promise<string | undefined> {
  writeFileSync(file, content)
  try {
    await checkTablePages(file)
    return undefined
  } catch (error) {
    expect(error).toMatchObject(CORRUPT)
    return (error as Error).message
  }
}

test('a page in the place of another is found, in every table', async () => {
  const file = join(await writeStore(), DATA_FILE)
  const whole = readFileSync(file)
  expect(await refusal(file, whole)).toBeUndefined()
  const tables = new Set<string>()
  for (let page = 2 * PAGE; page < whole.length; page += PAGE) {
    const copy = Buffer.from(whole)
    // The next page, or for the last one the page before.
    const other = page + 2 * PAGE <= whole.length ? page + PAGE : page - PAGE
    whole.copy(copy, page, other, other + PAGE)
    const reason = await refusal(file, copy)
    // Free pages are not read.
    if (reason !== undefined) tables.add(/table ([a-z ]+)/i.exec(reason)?.[1]?.split(' ')[0] ?? '')
  }
  const filled = ['chunks', 'ended', 'processed', 'recency', 'store', 'threadTurns', 'threads']
  expect([...tables].toSorted()).toEqual(expect.arrayContaining([...filled, 'tables', 'turns']))
})

test('a file that lost its end is found', async () => {
  const file = join(await writeStore(), DATA_FILE)
  const whole = readFileSync(file)
  let kept = whole.length / PAGE
  while ((await refusal(file, whole.subarray(0, (kept - 1) * PAGE))) === undefined) kept -= 1
  for (let pages = 2; pages < kept; pages++) {
    expect(await refusal(file, whole.subarray(0, pages * PAGE))).toMatch(
      /truncated|end of the file/,
    )
  }
})

/** A store in which a page of a table is zero. */
async function damagedStore(table: string): Promise<string> {
  const directory = await writeStore()
  await damagePage(join(directory, DATA_FILE), table)
  return directory
}

/** Clears a page of a table: the first in the file, or one after so many others. */
async function damagePage(file: string, table: string, skipped = 0): Promise<void> {
  let others = skipped
  const whole = readFileSync(file)
  for (let page = 2 * PAGE; page < whole.length; page += PAGE) {
    const copy = Buffer.from(whole).fill(0, page, page + PAGE)
    const reason = await refusal(file, copy)
    if (reason?.includes(`table ${table} is damaged`) && others-- === 0) return
  }
  throw new Error(`no page of ${table}`)
}

test.each(['threads', 'threadTurns', 'recency', 'turns'])(
  'a store with a damaged page of %s is neither opened nor compacted',
  async (table) => {
    const directory = await damagedStore(table)
    await expect(openLog(directory)).rejects.toMatchObject({
      ...CORRUPT,
      message: expect.stringContaining(`of table ${table} is damaged`),
    })
    await expect(compactEmbeddedLog(directory)).rejects.toMatchObject(CORRUPT)
    await expect(inspectEmbeddedLog(directory)).rejects.toMatchObject(CORRUPT)
  },
)

test('a store with a damaged page of a log is opened, and refused by verification', async () => {
  const directory = await damagedStore('chunks')
  await expect(inspectEmbeddedLog(directory)).rejects.toMatchObject(CORRUPT)
  await expect(compactEmbeddedLog(directory)).rejects.toMatchObject(CORRUPT)
  const log = await openLog(directory)
  expect(await log.getTurn('large')).toMatchObject({ sealed: true })
})

test('records on other pages can be read after one on a damaged page', async () => {
  const file = join(folderOfTest(), DATA_FILE)
  const keys = Array.from({ length: 200 }, (_, key) => key)
  const env = await Environment.open(file, 'system')
  const { responses: table } = env.tables
  await env.commit(keys.map((key) => ({ table, key, value: `response ${key} `.repeat(20) })))
  await env.close()
  await damagePage(file, 'responses', 3)
  const damaged = await Environment.open(file, 'system')
  const { responses } = damaged.tables
  const isDamaged = (key: number) => codeOf(() => responses.get(key)) === 'STORE_CORRUPT'
  const lost = keys.filter(isDamaged)
  const [first = 0] = lost
  // One page, so neighbours: the keys before and after it are readable.
  expect(lost).toEqual(Array.from({ length: lost.length }, (_, at) => first + at))
  expect(lost.length).toBeGreaterThan(2)
  expect(lost.length).toBeLessThan(20)
  // A range that reaches the page from another one would end the process.
  const range = { start: first + 1, limit: 1 }
  for (const read of [() => responses.getKeys(range), () => responses.getRange(range)]) {
    expect(codeOf(() => [...read()])).toBe('STORE_CORRUPT')
    expect(isDamaged(0)).toBe(false)
    expect([...responses.getKeys({ limit: 2 })]).toEqual([0, 1])
  }
  await damaged.close()
})

function codeOf(read: () => unknown): unknown {
  try {
    read()
    return undefined
  } catch (error) {
    return (error as { code?: unknown }).code
  }
}
