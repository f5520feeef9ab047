import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { deflateRawSync } from 'node:zlib'
import { describe, expect, test, vi } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { deltas, message } from '../../../../conformance/src/turn-log/texts.ts'
import { type StreamEvent, type StreamOutput, TurnstreamError } from '../../../../core/src/index.ts'
import { DATA_FILE, storeError } from '../../../src/log/embedded/data-file.ts'
import { Environment, type Tables } from '../../../src/log/embedded/environment.ts'
import { openEmbeddedLog } from '../../../src/server.ts'
import { createTurn, endTurn, folderOfTest, LEASE_MS, openLog, readEvents } from './support.ts'

/** The next commits fail, so many. */
function failCommits(times: number): void {
  const commit = vi.spyOn(Environment.prototype, 'commit')
  for (let left = times; left > 0; left--) {
    commit.mockRejectedValueOnce(new TurnstreamError('STORE_FULL', 'made up'))
  }
}

const full = { code: 'STORE_FULL' }

describe('a failed commit', () => {
  test('rejects its appends and all accepted after them, and a retry works', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'events', deltas('turn', 1, 254))
    failCommits(1)
    const appends = [
      appendTo(log, lease, 'events', deltas('turn', 255, 258)),
      appendTo(log, lease, 'events', deltas('turn', 259, 260)),
    ]
    for (const append of appends) await expect(append).rejects.toMatchObject(full)
    await expect(appendTo(log, lease, 'events', deltas('turn', 259, 259))).rejects.toMatchObject({
      code: 'LOG_SEQUENCE_GAP',
    })
    await appendTo(log, lease, 'events', deltas('turn', 255, 260))
    const expected = deltas('turn', 1, 260).map(({ data }) => data)
    expect((await readEvents(log, 'turn', 260)).map(({ data }) => data)).toEqual(expected)
    await log.close()
    const again = await openLog(directory)
    expect((await readEvents(again, 'turn', 260)).map(({ data }) => data)).toEqual(expected)
  })

  test('is retried by the writer with newer records, without loss or duplicates', async () => {
    const log = await openLog(folderOfTest())
    const lease = await createTurn(log, 'turn')
    const stored: StreamEvent[] = []
    const writer = log.open(lease, 'events', { onStored: (events) => stored.push(...events) })
    const events = deltas('turn', 1, 300).map(({ data }) => JSON.parse(data) as StreamEvent)
    failCommits(2)
    for (const [at, event] of events.entries()) {
      writer.write(event)
      if (at % 50 === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    await writer.flush()
    expect(stored).toEqual(events)
    const read = await readEvents(log, 'turn', 300)
    expect(read.map(({ data }) => data)).toEqual(events.map((event) => JSON.stringify(event)))
  })

  test('is not caused by a record without JSON: only its writer ends', async () => {
    const log = await openLog(folderOfTest())
    const circular: Record<string, unknown> = { type: 'message', itemId: 'a' }
    circular['self'] = circular
    const lease = await createTurn(log, 'broken')
    const other = await createTurn(log, 'other')
    const broken = log.open(lease, 'processed')
    broken.write({ output: circular as unknown as StreamOutput, eventId: 'e', timestamp: 1 })
    const going = appendTo(log, other, 'events', deltas('other', 1, 3))
    await expect(broken.flush()).rejects.toThrow(TypeError)
    await going
    await endTurn(log, lease, { events: 1, processed: 1 })
    expect((await log.getTurn('broken'))?.sealed).toBe(true)
  })

  test('emits nothing to readers', async () => {
    const log = await openLog(folderOfTest())
    const lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'processed', [{ seq: 1, data: message('turn', 'a', 'one') }])
    failCommits(1)
    const two = [{ seq: 2, data: message('turn', 'b', 'two') }]
    await expect(appendTo(log, lease, 'processed', two)).rejects.toMatchObject(full)
    expect((await log.snapshot('turn')).offset).toBe('1-1')
    const three = [{ seq: 2, data: message('turn', 'c', 'three') }]
    await appendTo(log, lease, 'processed', three)
    const { records } = await log.snapshot('turn')
    expect(records.map(({ key }) => key)).toEqual(['a', 'c'])
  })

  test('creates no turn, thread or run', async () => {
    const log = await openLog(folderOfTest())
    failCommits(1)
    const turn = { turnId: 'turn', runId: 'run', threadId: 'thread', owner: 'test' }
    await expect(log.create(turn, LEASE_MS)).rejects.toMatchObject(full)
    expect(await log.getTurn('turn')).toBeUndefined()
    expect(await log.getThread('thread')).toBeUndefined()
    expect(await log.expired(10)).toEqual([])
    expect((await log.create(turn, LEASE_MS)).epoch).toBe(1)
    expect(await log.getTurnOfRun('run')).toMatchObject({ turnId: 'turn', ordinal: 1 })
  })

  test('leaves a turn unsealed, unclaimed, not cancelled and not deleted', async () => {
    let now = 0
    const clock = { now: () => now, after: () => () => {} }
    const log = await openLog(folderOfTest(), { clock })
    const lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'events', deltas('turn', 1, 3))
    failCommits(4)
    await expect(endTurn(log, lease, { events: 4, processed: 1 })).rejects.toMatchObject(full)
    await expect(log.requestCancel('turn', 'no')).rejects.toMatchObject(full)
    now += LEASE_MS
    await expect(log.claim('turn', 'other', LEASE_MS)).rejects.toMatchObject(full)
    await expect(log.deleteTurn('turn')).rejects.toMatchObject(full)
    const record = await log.getTurn('turn')
    expect(record).toMatchObject({ epoch: 1, owner: 'test', status: 'in_progress', sealed: false })
    expect(record?.cancelReason).toBeUndefined()
    expect(await log.expired(10)).toEqual(['turn'])
    await appendTo(log, lease, 'events', deltas('turn', 4, 4))
    const next = await log.claim('turn', 'other', LEASE_MS)
    expect(next).toMatchObject({ epoch: 2, next: { events: 5, processed: 1 } })
    expect(await log.deleteTurn('turn')).toBe(true)
  })

  test('of a deletion keeps the turn readable', async () => {
    const log = await openLog(folderOfTest())
    const lease = await createTurn(log, 'turn')
    await endTurn(log, lease, { events: 1, processed: 1 })
    failCommits(1)
    await expect(log.deleteTurn('turn')).rejects.toMatchObject(full)
    expect(await readEvents(log, 'turn', 1)).toHaveLength(1)
    expect(await log.deleteTurn('turn')).toBe(true)
    expect(await log.getTurn('turn')).toBeUndefined()
  })

  test('of the journal does not stop the store', async () => {
    const log = await openLog(folderOfTest())
    const lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'events', deltas('turn', 1, 250))
    // The chunk is stored; then the journal is tidied up, in vain.
    const stored = appendTo(log, lease, 'events', deltas('turn', 251, 256))
    await stored
    failCommits(1)
    const next = appendTo(log, lease, 'events', deltas('turn', 257, 257)).catch(() => 'failed')
    if ((await next) === 'failed') await appendTo(log, lease, 'events', deltas('turn', 257, 257))
    expect(await readEvents(log, 'turn', 257)).toHaveLength(257)
  })
})

describe('a store that cannot be opened', () => {
  test('because its path is a file is STORE_READ_ONLY, which names it', async () => {
    const file = join(folderOfTest(), 'file')
    writeFileSync(file, 'text')
    for (const directory of [file, join(file, 'below')]) {
      const opening = openEmbeddedLog({ directory })
      await expect(opening).rejects.toMatchObject({ code: 'STORE_READ_ONLY' })
      await expect(opening).rejects.toThrow(`${file} is not a directory`)
    }
  })

  test('because its data file is a named pipe is refused without blocking', async () => {
    const directory = folderOfTest()
    spawnSync('sh', ['-c', 'exec mkfifo "$0"', join(directory, DATA_FILE)])
    const opening = openEmbeddedLog({ directory })
    await expect(opening).rejects.toMatchObject({ code: 'STORE_CORRUPT' })
    await expect(opening).rejects.toThrow(`${DATA_FILE} is not a file`)
  })

  test('without a directory is OPTION_INVALID', async () => {
    await expect(openEmbeddedLog({ directory: '' })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    })
  })

  test.each([
    [DATA_FILE, 'is no store', () => Buffer.from('not a store at all\n'.repeat(1000))],
    [DATA_FILE, 'is cut in its first page', (file: Buffer) => file.subarray(0, 100)],
    [DATA_FILE, 'is cut in its second page', (file: Buffer) => file.subarray(0, 5000)],
    [DATA_FILE, 'is cut after that', (file: Buffer) => file.subarray(0, 8192)],
    [DATA_FILE, 'is overwritten', (file: Buffer) => Buffer.from(file).fill(65, 4096, 8192)],
    ['owner.mdb', 'is no store', () => Buffer.from('neither')],
  ])(
    'because its %s %s is STORE_CORRUPT, and the directory is released',
    async (name, _what, damage) => {
      const directory = folderOfTest()
      await (await openLog(directory)).close()
      const file = join(directory, name)
      writeFileSync(file, damage(readFileSync(file)))
      const corrupt = { code: 'STORE_CORRUPT' }
      await expect(openEmbeddedLog({ directory })).rejects.toMatchObject(corrupt)
      await expect(openEmbeddedLog({ directory })).rejects.toMatchObject(corrupt)
    },
  )

  test('L10 because of a newer format is STORE_VERSION, which names both formats', async () => {
    const directory = folderOfTest()
    await (await openLog(directory)).close()
    const { open } = await import('lmdb')
    const root = open({ path: join(directory, DATA_FILE), noSubdir: true })
    await root.openDB({ name: 'store', encoding: 'string' }).put('format', '7')
    await root.close()
    const opening = openEmbeddedLog({ directory })
    await expect(opening).rejects.toMatchObject({ code: 'STORE_VERSION' })
    await expect(opening).rejects.toThrow(/format 7.* format 2/)
  })

  const bytes = (text: string) => new TextEncoder().encode(text)
  test.each<[name: keyof Tables, key: string | number | number[], value: string | Uint8Array]>([
    ['turns', 'turn', '{'],
    ['turns', 'turn', '{}'],
    ['journal', 1, 'nonsense'],
    ['journal', 1, '1,1,9\nshort'],
    ['chunks', [1, 1], bytes('nonsense')],
    ['chunks', [1, 1], deflateRawSync('?')],
    ['processed', [1, 0], 'nonsense'],
  ])('because table %s is malformed is STORE_CORRUPT', async (name, key, value) => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'processed', [{ seq: 1, data: message('turn', 'a', 'one') }])
    await log.close()
    const env = await Environment.open(join(directory, DATA_FILE), 'system')
    await env.commit([{ table: env.tables[name], key, value }])
    await env.close()
    const use = async () => {
      const again = await openLog(directory)
      await again.snapshot('turn')
      await readEvents(again, 'turn', 1)
    }
    await expect(use()).rejects.toMatchObject({ code: 'STORE_CORRUPT' })
  })
})

describe('the code of an error', () => {
  test.each([
    [{ code: 28 }, 'STORE_FULL'],
    [{ code: 'ENOSPC' }, 'STORE_FULL'],
    [{ code: 27 }, 'STORE_FULL'],
    [{ code: -30_792 }, 'STORE_FULL'],
    [{ code: 13 }, 'STORE_READ_ONLY'],
    [{ code: 'EROFS' }, 'STORE_READ_ONLY'],
    [{ code: -30_796 }, 'STORE_CORRUPT'],
    [{ code: 5 }, 'STORE_FAILED'],
    [{ code: -1 }, 'STORE_FAILED'],
    [{}, 'STORE_FAILED'],
  ])('of %j is %s', async (fields, code) => {
    const file = join(folderOfTest(), 'file')
    writeFileSync(file, 'text')
    const cause = Object.assign(new Error('it failed'), fields)
    const error = await storeError(cause, file)
    expect(error).toMatchObject({ code, cause })
    expect(error.message).toContain(`${file}: it failed`)
  })

  test('is the error of the failed commit, if there is one', async () => {
    const cause = Object.assign(new Error('no space'), { code: 28 })
    const rejected = Promise.reject(cause)
    const error = Object.assign(new Error('Commit failed'), { commitError: rejected })
    expect(await storeError(error, 'file')).toMatchObject({ code: 'STORE_FULL', cause })
  })
})
