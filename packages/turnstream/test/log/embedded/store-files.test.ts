/** A directory that is removed or replaced while a store is open in it. */

import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { deltas } from '../../../../conformance/src/turn-log/texts.ts'
import { inspectEmbeddedLog } from '../../../src/log/embedded/inspect.ts'
import { openEmbeddedLog } from '../../../src/server.ts'
import { StoreProcess } from './process.ts'
import { createTurn, folderOfTest, openLog, readEvents } from './support.ts'

const lost = { code: 'STORE_LOST' }
const locked = { code: 'STORE_LOCKED' }

function remove(directory: string): void {
  rmSync(directory, { recursive: true })
}

function recreate(directory: string): void {
  remove(directory)
  mkdirSync(directory)
}

function rename(directory: string): void {
  renameSync(directory, `${directory}.old`)
}

const removeFile = (name: string) => (directory: string) => rmSync(join(directory, name))

describe.each([
  ['the directory is removed', remove],
  ['the directory is recreated', recreate],
  ['the directory is renamed', rename],
  ['turns.mdb is removed', removeFile('turns.mdb')],
  ['turns.mdb-lock is removed', removeFile('turns.mdb-lock')],
  ['owner.mdb is removed', removeFile('owner.mdb')],
  ['owner.mdb-lock is removed', removeFile('owner.mdb-lock')],
])('%s', (_what, damage) => {
  test('no append or new turn is acknowledged, and readers of open turns fail', async () => {
    const directory = join(folderOfTest(), 'store')
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'events', deltas('turn', 1, 2))
    const reader = readEvents(log, 'turn', 3)
    const told = reader.catch((error: unknown) => error)
    damage(directory)
    await expect(appendTo(log, lease, 'events', deltas('turn', 3, 3))).rejects.toMatchObject(lost)
    expect(await told).toMatchObject(lost)
    await expect(createTurn(log, 'next')).rejects.toMatchObject(lost)
    await expect(createTurn(log, 'next')).rejects.toThrow(directory)
    await expect(log.listThreads()).rejects.toMatchObject(lost)
    await expect(log.getTurn('turn')).rejects.toMatchObject(lost)
    await expect(log.renew(lease, 1000)).rejects.toMatchObject(lost)
    await expect(log.orphans(1)).rejects.toMatchObject(lost)
    await log.close()
  })

  test('an idle store notices it at its next use', async () => {
    let now = 0
    const directory = join(folderOfTest(), 'store')
    const clock = { now: () => now, after: () => () => {} }
    const log = await openLog(directory, { clock })
    await createTurn(log, 'turn')
    const reader = readEvents(log, 'turn', 1)
    const told = reader.catch((error: unknown) => error)
    damage(directory)
    now += 1000
    await expect(log.listThreads({ limit: 1 })).rejects.toMatchObject(lost)
    expect(await told).toMatchObject(lost)
  })
})

describe('a path that a live process owns', () => {
  test('is refused to this and other processes until the first releases it', async () => {
    const directory = join(folderOfTest(), 'store')
    const log = await openLog(directory)
    recreate(directory)
    const opening = openEmbeddedLog({ directory })
    await expect(opening).rejects.toMatchObject(locked)
    await expect(opening).rejects.toThrow(`${directory} is used by this process`)
    await expect(inspectEmbeddedLog(directory)).rejects.toMatchObject(locked)
    const other = new StoreProcess('hold', directory)
    const { error } = await other.until((report) => report.error !== undefined)
    expect(error?.code).toBe('STORE_LOCKED')
    expect(error?.message).toContain(`${directory} is used by process ${process.pid}`)
    expect(readdirSync(directory)).toEqual([])
    await log.close()
    await openLog(directory)
  })

  test('is free when that process was killed', async () => {
    const directory = join(folderOfTest(), 'store')
    const owner = new StoreProcess('hold', directory)
    const { open } = await owner.until((report) => report.open !== undefined)
    recreate(directory)
    await expect(openEmbeddedLog({ directory })).rejects.toThrow(`used by process ${open}`)
    await owner.kill()
    await openLog(directory)
  })
})
