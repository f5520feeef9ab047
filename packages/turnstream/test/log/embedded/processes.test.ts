/** What other processes do to a store, and what is left of it when they die. */

import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { delta, deltas } from '../../../../conformance/src/turn-log/texts.ts'
import { openEmbeddedLog } from '../../../src/server.ts'
import { StoreProcess, type StoreProcessOptions } from './process.ts'
import { createTurn, folderOfTest, openLog, readEvents } from './support.ts'

const isRoot = process.getuid?.() === 0
const NOBODY = 65_534

/** Whatever the child was told is kept is there, in order, and one record more at most. */
async function checkKept(directory: string, child: StoreProcess, turns: number): Promise<void> {
  const log = await openLog(directory)
  for (let index = 0; index < turns; index++) {
    const turnId = `turn-${index}`
    const acknowledged = child.acknowledged(turnId)
    const lease = await log.claim(turnId, 'test', 1000)
    const kept = lease.next.events - 1
    expect(kept).toBeGreaterThanOrEqual(acknowledged)
    expect(kept).toBeLessThanOrEqual(acknowledged + 1)
    const offsets = (await readEvents(log, turnId, kept)).map(({ offset }) => offset)
    expect(offsets).toEqual(Array.from({ length: kept }, (_, at) => `1-${at + 1}`))
  }
}

describe('one process at a time', () => {
  test('a second process is refused with the directory and the owner', async () => {
    const directory = folderOfTest()
    const owner = new StoreProcess('hold', directory)
    const { open } = await owner.until((report) => report.open !== undefined)
    const opening = openEmbeddedLog({ directory })
    await expect(opening).rejects.toMatchObject({ code: 'STORE_LOCKED' })
    await expect(opening).rejects.toThrow(`${directory} is used by process ${open}`)
    const second = new StoreProcess('hold', directory)
    const { error } = await second.until((report) => report.error !== undefined)
    expect(error?.code).toBe('STORE_LOCKED')
    await owner.end()
    const log = await openLog(directory)
    expect(await log.expired(10)).toEqual([])
  })

  test('a second log in the same process is refused without disturbing the first', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    const opening = openEmbeddedLog({
      directory: join(directory, '..', directory.split('/').at(-1) ?? ''),
    })
    await expect(opening).rejects.toMatchObject({ code: 'STORE_LOCKED' })
    await expect(opening).rejects.toThrow('this process')
    const other = new StoreProcess('hold', directory)
    const { error } = await other.until((report) => report.error !== undefined)
    expect(error?.code).toBe('STORE_LOCKED')
    await appendTo(log, lease, 'events', deltas('turn', 1, 2))
    await log.close()
    await openLog(directory)
  })

  test('at most one of several concurrent starts gets the store, and its death frees it', async () => {
    const directory = folderOfTest()
    const starters = Array.from({ length: 4 }, () => new StoreProcess('hold', directory))
    const first = await Promise.all(starters.map((each) => each.until(() => true)))
    expect(first.filter(({ open }) => open !== undefined).length).toBeLessThanOrEqual(1)
    await Promise.all(starters.map((each) => each.kill()))
    await openLog(directory)
  })
})

describe('kill -9', () => {
  test.each([
    [1, 1, 8, 'commit'],
    [1, 300, 8, 'system'],
    [20, 30, 8, 'commit'],
    [20, 257, 300, 'system'],
  ] as const)(
    'of %i turns after %i records of a turn loses nothing acknowledged',
    { tags: ['slow'] },
    async (turns, records, chars, sync) => {
      const directory = folderOfTest()
      const child = new StoreProcess('write', directory, { turns, chars, sync })
      await child.until(({ seq }) => seq === records)
      await child.kill()
      await checkKept(directory, child, turns)
    },
  )

  test('turns of a dead process are orphans at once', async () => {
    const directory = folderOfTest()
    const child = new StoreProcess('write', directory, { turns: 3 })
    await child.until(({ turnId, seq }) => turnId === 'turn-2' && seq === 1)
    await child.kill()
    const log = await openLog(directory)
    expect((await log.expired(10)).toSorted()).toEqual(['turn-0', 'turn-1', 'turn-2'])
  })
})

describe('a full disk', () => {
  async function fill(directory: string, options: StoreProcessOptions): Promise<StoreProcess> {
    const child = new StoreProcess('write', directory, { turns: 2, chars: 4000, ...options })
    const { error } = await child.until((report) => report.error !== undefined)
    expect(error?.code).toBe('STORE_FULL')
    await child.kill()
    return child
  }

  test.each(['commit', 'system'] as const)(
    'is STORE_FULL and loses nothing acknowledged (%s)',
    async (sync) => {
      const directory = folderOfTest()
      // As large as a file may become is as good as a disk that is full, and needs no disk.
      const child = await fill(directory, { limitKb: 2000, sync })
      expect(child.acknowledged('turn-0')).toBeGreaterThan(50)
      await checkKept(directory, child, 2)
    },
  )

  test.runIf(isRoot)('that is real works again when there is space', async () => {
    const directory = join(tmpdir(), `turnstream-full-${process.pid}`)
    mkdirSync(directory)
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'none', directory])
    // Some containers let not even root mount anything.
    if (mounted.status !== 0) return
    onTestFinished(() => {
      spawnSync('umount', [directory])
    })
    // lmdb tells the console of commits that fail.
    vi.spyOn(console, 'error').mockImplementation(() => {})
    const ballast = join(directory, 'ballast')
    writeFileSync(ballast, new Uint8Array(4 * 1024 * 1024))
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    let seq = 0
    const append = async () => {
      const record = { seq: seq + 1, data: delta('turn', seq + 1, 'x'.repeat(10_000)) }
      await appendTo(log, lease, 'events', [record])
      seq += 1
    }
    const filled = (async () => {
      for (;;) await append()
    })()
    await expect(filled).rejects.toMatchObject({ code: 'STORE_FULL' })
    await expect(append()).rejects.toMatchObject({ code: 'STORE_FULL' })
    expect(seq).toBeGreaterThan(20)
    rmSync(ballast)
    await append()
    expect(await readEvents(log, 'turn', seq)).toHaveLength(seq)
    await log.close()
    const again = await openLog(directory)
    expect(await readEvents(again, 'turn', seq)).toHaveLength(seq)
    expect((await again.claim('turn', 'test', 1000)).next.events).toBe(seq + 1)
    await again.close()
  })
})

describe('an unusable directory', () => {
  test('that is read-only is STORE_READ_ONLY', async () => {
    const parent = folderOfTest()
    const directory = join(parent, 'store')
    const log = await openLog(directory)
    await log.close()
    chmodSync(parent, 0o755)
    for (const file of ['turns.mdb', 'turns.mdb-lock', 'owner.mdb', 'owner.mdb-lock']) {
      chmodSync(join(directory, file), 0o444)
    }
    chmodSync(directory, 0o555)
    onTestFinished(() => chmodSync(directory, 0o755))
    const child = new StoreProcess('hold', directory, isRoot ? { uid: NOBODY } : {})
    const { error } = await child.until((report) => report.error !== undefined)
    expect(error?.code).toBe('STORE_READ_ONLY')
    expect(error?.message).toContain(directory)
  })
})
