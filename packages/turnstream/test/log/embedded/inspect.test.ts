import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { eventsUpTo, outputsOf } from '../../../../conformance/src/turn-log/texts.ts'
import { inspectEmbeddedLog } from '../../../src/log/embedded/inspect.ts'
import { openEmbeddedLog } from '../../../src/server.ts'
import { StoreProcess } from './process.ts'

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-inspect-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

async function closedStore(): Promise<string> {
  const directory = folder()
  const log = await openEmbeddedLog({ directory })
  await log.close()
  return directory
}

describe('an inspected store', () => {
  test('is described by its size and can be opened afterwards', async () => {
    const directory = await closedStore()
    expect((await inspectEmbeddedLog(directory)).bytes).toBeGreaterThan(0)
    const log = await openEmbeddedLog({ directory })
    await log.close()
  })

  test('may not exist: nothing is created', async () => {
    const directory = folder()
    expect(await inspectEmbeddedLog(directory)).toEqual({ bytes: undefined })
    expect(readdirSync(directory)).toEqual([])
  })

  test.each(['owner.mdb', 'owner.mdb-lock', 'turns.mdb-lock'])(
    'without its %s is not opened, which would create it',
    async (name) => {
      const directory = await closedStore()
      rmSync(join(directory, name))
      await inspectEmbeddedLog(directory)
      expect(readdirSync(directory)).not.toContain(name)
    },
  )

  test('is free after concurrent inspections', async () => {
    const directory = await closedStore()
    await inspectEmbeddedLog(directory)
    await expect(inspectEmbeddedLog(directory)).resolves.toBeDefined()
  })
})

describe('the records of a store', () => {
  async function storeWithTurns(): Promise<string> {
    const directory = folder()
    const log = await openEmbeddedLog({ directory })
    for (const turnId of ['whole', 'running']) {
      const turn = { turnId, threadId: turnId, runId: turnId, owner: 'test' }
      const lease = await log.create(turn, 600_000)
      const seal = turnId === 'whole'
      await appendTo(log, lease, 'events', eventsUpTo(turnId, 300), { seal })
      await appendTo(log, lease, 'processed', outputsOf(turnId, 'ab'), { seal })
    }
    await log.close()
    return directory
  }

  test('are counted', async () => {
    const directory = await storeWithTurns()
    const { verification } = await inspectEmbeddedLog(directory)
    expect(verification).toMatchObject({
      turns: 2,
      damagedRecords: 0,
      damagedTurns: 0,
      findings: [],
    })
  })

  test('that are missing are found', async () => {
    const directory = await storeWithTurns()
    const { open } = await import('lmdb')
    const root = open({ path: join(directory, 'turns.mdb'), noSubdir: true, encoding: 'binary' })
    const chunks = root.openDB({ name: 'chunks', encoding: 'binary' })
    for (const key of chunks.getKeys({})) await chunks.remove(key)
    await root.close()
    const { verification } = await inspectEmbeddedLog(directory)
    expect(verification).toMatchObject({ damagedTurns: 1 })
    expect(verification?.findings.join('')).toContain('event 1 is missing')
  })
})

describe('a store that cannot be opened', () => {
  test('is refused while this process has it open', async () => {
    const directory = folder()
    const log = await openEmbeddedLog({ directory })
    onTestFinished(() => log.close())
    await expect(inspectEmbeddedLog(directory)).rejects.toMatchObject({ code: 'STORE_LOCKED' })
  })

  test('is refused while another process has it, and free when that is killed', async () => {
    const directory = folder()
    const child = new StoreProcess('hold', directory)
    await child.until(({ open }) => open !== undefined)
    await expect(inspectEmbeddedLog(directory)).rejects.toMatchObject({ code: 'STORE_LOCKED' })
    await child.kill()
    await expect(inspectEmbeddedLog(directory)).resolves.toBeDefined()
  })

  test('is refused when a newer version wrote it, and left unchanged', async () => {
    const directory = await closedStore()
    const { open } = await import('lmdb')
    const root = open({ path: join(directory, 'turns.mdb'), noSubdir: true, encoding: 'string' })
    await root.openDB({ name: 'store', encoding: 'string' }).put('format', '3')
    await root.close()
    for (const _ of [1, 2]) {
      await expect(inspectEmbeddedLog(directory)).rejects.toMatchObject({ code: 'STORE_VERSION' })
    }
    await expect(openEmbeddedLog({ directory })).rejects.toMatchObject({ code: 'STORE_VERSION' })
  })

  test('is refused when it is not a store', async () => {
    const directory = folder()
    writeFileSync(join(directory, 'turns.mdb'), 'x'.repeat(10_000))
    await expect(inspectEmbeddedLog(directory)).rejects.toMatchObject({ code: 'STORE_CORRUPT' })
  })
})
