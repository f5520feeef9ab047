/** What is decided without looking at anything. */

import { describe, expect, test } from 'vitest'
import { read } from '../../../../../test/repository/sources.ts'
import { redactCheck } from '../../../../conformance/src/endpoint/check.ts'
import { redacting } from '../../../../core/src/protocol/redaction.ts'
import { diskCheck } from '../../../src/cli/doctor/embedded-checks.ts'
import {
  type ClockReading,
  clockCheck,
  filesCheck,
  type Machine,
  memoryCheck,
  nodeCheck,
  readClock,
  thisMachine,
} from '../../../src/cli/doctor/machine-checks.ts'
import { redisChecks } from '../../../src/cli/doctor/redis-checks.ts'
import { writeReport } from '../../../src/cli/doctor/report.ts'
import { readConfiguration } from '../../../src/cli/serve/configuration.ts'
import { FORMAT } from '../../../src/log/redis/keys.ts'
import { fakeTerminal } from '../fake-terminal.ts'

const { settings } = readConfiguration({ flags: {}, env: {}, cwd: '/nowhere' })

describe('a report', () => {
  const found = 'a directory that is used by another process'
  const fix = 'Stop that process, or choose another directory'

  async function lines(isInteractive: boolean): Promise<string[]> {
    const { terminal, output } = fakeTerminal([], { columns: 40, isInteractive })
    await writeReport([{ name: 'store', verdict: 'fail', found, fix }], terminal, false)
    return output().split('\n').slice(0, -3)
  }

  test('fits into the terminal', async () => {
    expect(await lines(true)).toEqual([
      'fail     store  a directory that is used',
      '                by another process',
      '                fix: Stop that process,',
      '                or choose another',
      '                directory',
    ])
  })

  test('has a line for each fact if it is not printed to a terminal', async () => {
    expect(await lines(false)).toEqual([`fail     store  ${found}`, `                fix: ${fix}`])
  })
})

describe('the clock check', () => {
  const at = (theirs: number, more: Partial<ClockReading> = {}): ClockReading => ({
    source: 'x',
    theirs,
    from: 100_000,
    to: 100_400,
    stepMs: 1000,
    ...more,
  })

  test.each([
    [100_000, 'ok', 'agrees with x'],
    [97_000, 'ok', 'agrees with x'],
    [96_999, 'warn', '2 s ahead of x'],
    [69_000, 'warn', '30 s ahead of x'],
    [68_999, 'fail', '30 s ahead of x'],
    [102_400, 'ok', 'agrees with x'],
    [102_401, 'warn', '2 s behind x'],
    [130_400, 'warn', '30 s behind x'],
    [130_401, 'fail', '30 s behind x'],
  ] as const)('another clock at %i is %s', (theirs, verdict, found) => {
    expect(clockCheck([at(theirs)])).toMatchObject({ verdict, found })
  })

  test('ignores the time the request took', () => {
    expect(clockCheck([at(100_000, { to: 160_000 })]).verdict).toBe('ok')
    expect(clockCheck([at(160_000, { to: 160_000 })]).verdict).toBe('ok')
  })

  test('compares with the nearest of several clocks', () => {
    const readings = [at(0, { source: 'far' }), at(100_000, { source: 'near' })]
    expect(clockCheck(readings).found).toBe('agrees with near')
  })

  test('is skipped without another clock', () => {
    expect(clockCheck([]).verdict).toBe('skipped')
    for (const headers of [new Headers(), new Headers({ date: 'tomorrow' })]) {
      expect(readClock('x', { headers, askedAt: 0, answeredAt: 0 })).toBeUndefined()
    }
  })
})

describe('the machine checks', () => {
  const machine: Machine = {
    nodeVersion: '20.19.0',
    freeBytes: 8e9,
    heapBytes: 4e9,
    openFiles: 20_000,
  }

  test('read the limits of this process', () => {
    const { nodeVersion, freeBytes, heapBytes, openFiles } = thisMachine()
    expect(nodeVersion).toBe(process.versions.node)
    expect(freeBytes).toBeGreaterThan(0)
    expect(heapBytes).toBeGreaterThan(0)
    expect(openFiles).toBeGreaterThan(0)
  })

  test.each([
    ['18.20.0', 'fail'],
    ['20.18.9', 'fail'],
    ['20.19.0', 'ok'],
    ['22.0.0', 'ok'],
  ] as const)('Node %s: %s', (nodeVersion, verdict) => {
    expect(nodeCheck({ ...machine, nodeVersion }).verdict).toBe(verdict)
  })

  test('require the Node version of package.json', () => {
    const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } }
    const least = engines.node.replace('>=', '')
    expect(nodeCheck({ ...machine, nodeVersion: `${least}.0` }).verdict).toBe('ok')
    expect(nodeCheck({ ...machine, nodeVersion: '20.18.0' }).fix).toContain(`Node ${least} or`)
  })

  test.each([
    ['8 GB', {}, 0, 'ok'],
    ['more keys than memory', {}, 1000, 'warn'],
    ['a small container', { freeBytes: 300e6 }, 1, 'warn'],
    ['less than it begins with', { freeBytes: 80e6 }, 1, 'fail'],
  ] as const)('memory, %s: %s', (_about, more, keys, verdict) => {
    expect(memoryCheck({ ...machine, ...more }, settings, keys).verdict).toBe(verdict)
  })

  test('name the bottleneck: heap or memory', () => {
    const heap = memoryCheck({ ...machine, heapBytes: 400e6 }, settings, 1)
    expect(heap.fix).toContain('NODE_OPTIONS=--max-old-space-size=788')
    const memory = memoryCheck({ ...machine, freeBytes: 400e6 }, settings, 1)
    expect(memory.fix).toContain('Provide more memory')
  })

  test('have no bound to compare with when limits are unlimited', () => {
    const unlimited = { ...settings, maxConnections: Infinity }
    expect(memoryCheck(machine, unlimited, 1)).toMatchObject({ verdict: 'ok' })
    expect(filesCheck(machine, unlimited).found).toBe('20000 at a time, for unlimited connections')
    expect(filesCheck({ ...machine, openFiles: 200 }, unlimited).verdict).toBe('fail')
  })

  test('skip open files when the system does not report the limit', () => {
    expect(filesCheck({ ...machine, openFiles: undefined }, settings).verdict).toBe('skipped')
    expect(filesCheck({ ...machine, openFiles: Infinity }, settings).verdict).toBe('ok')
  })
})

test.each([
  [10e6, 'fail'],
  [500e6, 'warn'],
  [5e9, 'ok'],
] as const)('%i bytes of free disk: %s', (bytes, verdict) => {
  const check = diskCheck(bytes, '/data')
  expect(check.verdict).toBe(verdict)
  if (verdict !== 'ok') expect(check.fix).toContain('df -h /data')
})

describe('the Redis checks', () => {
  const INFO = {
    redis_version: '7.2.4',
    maxmemory_policy: 'noeviction',
    maxmemory: '0',
    aof_enabled: '1',
    role: 'master',
  }
  const checksOf = (info: Record<string, string>, roundTripMs = 1) => {
    const facts = {
      info: new Map(Object.entries({ ...INFO, ...info })),
      roundTripMs,
      time: { source: 'Redis', theirs: 0, from: 0, to: 0, stepMs: 1 },
      format: String(FORMAT),
      refusal: undefined,
    }
    const checks = redisChecks(facts, 'redis://user:hidden@redis:6380/2')
    return checks.filter(({ verdict }) => verdict !== 'ok')
  }

  test('pass for a correct Redis', () => {
    expect(checksOf({})).toEqual([])
  })

  test.each([
    ['6.2.14', 'Redis 6.2.14', ['store version']],
    ['7.0.0', 'Redis 7.0.0', []],
    ['8.0.0', 'Redis 8.0.0', []],
  ])('version %s', (version, found, names) => {
    const checks = checksOf({ redis_version: version })
    expect(checks.map(({ name }) => name)).toEqual(names)
    if (names.length > 0) expect(checks[0]).toMatchObject({ verdict: 'fail', found })
  })

  test('recognise Valkey', () => {
    expect(checksOf({ valkey_version: '8.1.0' })).toEqual([])
  })

  test('warn about a slow round trip and redact the password', () => {
    const [slow] = checksOf({}, 45)
    expect(slow).toMatchObject({
      verdict: 'warn',
      found: 'Redis at redis://redis:6380/2, round trip 45.0 ms',
      fix: expect.stringContaining('redis-cli --latency'),
    })
  })
})

test('a check is redacted in every field', () => {
  const secret = 'planted-secret'
  const said = { found: `f ${secret}`, expected: `e ${secret}`, fix: `x ${secret}` }
  const check = redactCheck({ name: 'n', verdict: 'fail', ...said }, redacting([secret]))
  expect(JSON.stringify(check)).not.toContain(secret)
  expect(Object.keys(check)).toEqual(['name', 'verdict', 'found', 'expected', 'fix'])
})
