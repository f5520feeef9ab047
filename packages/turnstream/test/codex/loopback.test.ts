/**
 * A turn through codex contacts nobody but the vendor.
 * @module-tag slow
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, onTestFinished, type TestContext, test, vi } from 'vitest'
import { installedCodex } from './support.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 240_000 })

let binary = ''
beforeAll(() => {
  binary = installedCodex()
})

const SCRIPT = fileURLToPath(new URL('loopback-turn.mjs', import.meta.url))

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-codex-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true, maxRetries: 10 }))
  return made
}

/** Whether a command succeeds here. If not, the test is skipped, and says why. */
function requireWorking({ skip }: TestContext, [command = '', ...args]: string[]): void {
  const { status, error, stderr } = spawnSync(command, args, { encoding: 'utf8' })
  if (status === 0) return
  const reason = `not checked: this machine cannot run ${command}: ${error?.message ?? stderr.trim()}`
  process.stderr.write(`${reason}\n`)
  skip(reason)
}

function run(command: string, args: readonly string[]): string {
  const options = { encoding: 'utf8', timeout: 100_000 } as const
  const { stdout, stderr, status } = spawnSync(command, args, options)
  expect([status, status === 0 ? '' : stderr]).toEqual([0, ''])
  return stdout
}

const ANSWER = 'Hello from behind codex: alone?'

test('the gateway and codex connect to loopback only', (context) => {
  requireWorking(context, ['strace', '-f', '-e', 'trace=connect', 'true'])
  const trace = join(folder(), 'trace')
  const options = ['-f', '-qq', '-e', 'trace=connect,sendto,sendmsg', '-s', '0', '-o', trace]
  const answer = run('strace', [...options, process.execPath, SCRIPT, folder(), binary])
  expect(answer).toContain(ANSWER)
  const calls = readFileSync(trace, 'utf8').split('\n')
  const reached = calls.filter((line) => /sa_family=AF_INET6?\b/.test(line))
  // To the gateway and to the vendor.
  expect(reached.length).toBeGreaterThanOrEqual(2)
  const isLoopback =
    /inet_addr\("127\.\d+\.\d+\.\d+"\)|inet_pton\(AF_INET6, "(?:::1|::ffff:127\.[\d.]+)"/
  expect(reached.filter((line) => !isLoopback.test(line))).toEqual([])
})

test('a turn works where there is no other network than loopback', (context) => {
  const isolated = ['-rn', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
  requireWorking(context, ['unshare', ...isolated, 'true'])
  const answer = run('unshare', [...isolated, process.execPath, SCRIPT, folder(), binary])
  expect(answer).toContain(ANSWER)
})
