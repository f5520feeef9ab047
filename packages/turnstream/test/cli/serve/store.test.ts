import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { TurnstreamError } from '../../../../core/src/index.ts'
import {
  describeStore,
  openStore,
  type StoreChoice,
  storeFault,
  storeSecrets,
} from '../../../src/cli/serve/store.ts'
import { compactEmbeddedLog } from '../../../src/log/embedded/compact.ts'
import { MemoryLog } from '../../../src/server.ts'

const options = {
  clock: systemClock,
  storeTimeoutMs: 3000,
  onError: () => {},
}

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-store-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

describe('a missing directory', () => {
  test('is created for its owner only, and ignored by git', async () => {
    const directory = join(folder(), 'a', 'b')
    const log = await openStore({ kind: 'embedded', directory }, options)
    await log.close()
    expect(statSync(directory).mode & 0o777).toBe(0o700)
    expect(readFileSync(join(directory, '.gitignore'), 'utf8')).toBe('*\n')
  })

  test('an existing one is left unchanged', async () => {
    const directory = join(folder(), 'mine')
    mkdirSync(directory, { mode: 0o750 })
    const log = await openStore({ kind: 'embedded', directory }, options)
    await log.close()
    expect(statSync(directory).mode & 0o777).toBe(0o750)
    expect(existsSync(join(directory, '.gitignore'))).toBe(false)
  })

  test('its files are for their owner only, whatever the mode of the directory', async () => {
    const directory = folder()
    chmodSync(directory, 0o777)
    const log = await openStore({ kind: 'embedded', directory }, options)
    await log.close()
    await compactEmbeddedLog(directory)
    const names = readdirSync(directory)
    expect(names).toContain('turns.mdb')
    for (const name of names) {
      expect([name, statSync(join(directory, name)).mode & 0o777]).toEqual([name, 0o600])
    }
  })

  test('that cannot be created is an error with code and path', async () => {
    const file = join(folder(), 'file')
    writeFileSync(file, '')
    const directory = join(file, 'store')
    const opening = openStore({ kind: 'embedded', directory }, options)
    await expect(opening).rejects.toBeInstanceOf(TurnstreamError)
    await expect(opening).rejects.toThrow(`${file} is not a directory`)
  })

  test.runIf(existsSync('/proc/self'))('in /proc is refused at once', async () => {
    for (const directory of ['/proc/turnstream', '/proc/turnstream/store', '/proc']) {
      const opening = openStore({ kind: 'embedded', directory }, options)
      await expect(opening).rejects.toMatchObject({ code: 'STORE_READ_ONLY' })
      await expect(opening).rejects.toThrow('/proc')
    }
  })
})

test('memory opens a MemoryLog', async () => {
  expect(await openStore({ kind: 'memory' }, options)).toBeInstanceOf(MemoryLog)
})

test('retention is passed on: expired turns are removed', async () => {
  let now = 0
  const clock = { now: () => now, after: () => () => {} }
  const log = await openStore({ kind: 'memory' }, { ...options, clock, retentionMs: 1000 })
  const lease = await log.create({ turnId: 'a', threadId: 't', owner: 'me' }, 100)
  const end = { type: 'turn_aborted_by_user', turn_id: 'a', reason: 'x' }
  const trace_context = { traceparent: '' }
  const event = {
    event_id: 'e',
    run_id: 'a',
    timestamp: 1,
    trace_context,
    type: end.type,
    payload: end,
  }
  await appendTo(log, lease, 'events', [{ seq: 1, data: JSON.stringify(event) }], { seal: true })
  const done = { type: 'turn_complete', turnId: 'a', threadId: 't', status: 'aborted' }
  await appendTo(log, lease, 'processed', [{ seq: 1, data: JSON.stringify(done) }], { seal: true })
  now = 1001
  await log.create({ turnId: 'b', threadId: 't', owner: 'me' }, 100)
  expect(await log.getTurn('a')).toMatchObject({ expired: true })
})

describe('the description of a store', () => {
  const redis: StoreChoice = { kind: 'redis', url: 'rediss://me:p%40ss@host:6380/2', prefix: 'x' }

  test.each<[StoreChoice, string]>([
    [{ kind: 'memory' }, 'memory (turns are lost when this process ends)'],
    [{ kind: 'embedded', directory: '/data' }, 'embedded in /data'],
    [redis, 'Redis at rediss://host:6380/2'],
    [{ kind: 'redis', url: 'redis://host', prefix: 'x' }, 'Redis at redis://host'],
  ])('%j', (choice, text) => {
    expect(describeStore(choice)).toBe(text)
  })

  test('registers its password as a secret, raw and URL-encoded', () => {
    expect(storeSecrets(redis)).toEqual(['p%40ss', 'p@ss', 'rediss://me:p%40ss@host:6380/2'])
    expect(storeSecrets({ kind: 'redis', url: 'redis://host', prefix: 'x' })).toEqual([])
    expect(storeSecrets({ kind: 'memory' })).toEqual([])
  })

  test.each([
    ['STORE_LOCKED', 'or use Redis for both. (STORE_LOCKED)'],
    ['STORE_READ_ONLY', 'Choose a directory that this user can write with --store.'],
    ['STORE_FULL', 'Free space'],
    ['STORE_VERSION', 'Unsupported store format: detail (STORE_VERSION)'],
  ] as const)('%s comes with advice where there is any', (code, text) => {
    const choice: StoreChoice = { kind: 'embedded', directory: '/data' }
    expect(storeFault(choice, new TurnstreamError(code, 'detail'))).toContain(text)
  })

  test('an unreachable Redis is named without its password', () => {
    const fault = storeFault(redis, new TurnstreamError('STORE_UNAVAILABLE', 'ECONNREFUSED'))
    expect(fault).toContain('rediss://host:6380/2')
    expect(fault).toContain('Start it, or choose another store')
    expect(fault).not.toContain('p%40ss')
  })
})
