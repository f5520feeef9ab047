/** Tests that need a process: other users, system limits, exit codes. */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { turnstream } from '../process.ts'
import { bothReports, checkNamed, folder, PATIENCE, type Reported, type Setup } from './support.ts'

const MAIN = new URL('../../../dist/cli/main.js', import.meta.url).pathname
const NOBODY = 65_534

async function runBuilt({ args = [], env = {}, cwd = folder() }: Setup): Promise<Reported> {
  const { ended, stdout, stderr } = turnstream(['doctor', ...args], { cwd, env })
  const code = await ended
  expect(stderr()).toBe('')
  return { code, text: stdout() }
}

const DIST = new URL('../../../dist/cli/', import.meta.url)

/** Loads the command first and drops its rights then: another user may be unable to read this clone. */
const RUN_AS_NOBODY = `
  const { doctor } = await import('${new URL('doctor/doctor.js', DIST).href}')
  const { processTerminal } = await import('${new URL('terminal.js', DIST).href}')
  if (process.getuid() === 0) {
    process.setgroups([])
    process.setgid(${NOBODY})
    process.setuid(${NOBODY})
  }
  process.exitCode = await doctor.run(process.argv.slice(1), processTerminal())
`

/** Runs doctor as a user that owns no files. */
async function runAsNobody({ args = [], cwd = folder() }: Setup): Promise<Reported> {
  const command = ['--input-type=module', '--eval', RUN_AS_NOBODY, '--', ...args]
  const { status, stdout, stderr } = spawnSync(process.execPath, command, {
    cwd,
    env: {},
    encoding: 'utf8',
  })
  expect(stderr).toBe('')
  return { code: status, text: stdout }
}

/** With so many open files at the most. */
function runLimited(files: number) {
  return async ({ args = [], cwd = folder() }: Setup): Promise<Reported> => {
    const script = `ulimit -n ${files}; exec "$0" "$@"`
    const command = ['-c', script, process.execPath, MAIN, 'doctor', ...args]
    const { status, stdout, stderr } = spawnSync('sh', command, {
      cwd,
      env: {},
      encoding: 'utf8',
    })
    expect(stderr).toBe('')
    return { code: status, text: stdout }
  }
}

/** A directory that every user can enter and only its owner can change. */
function openFolder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-doctor-'))
  onTestFinished(() => {
    chmodSync(made, 0o755)
    rmSync(made, { recursive: true, force: true })
  })
  return made
}

describe('doctor as a process', PATIENCE, () => {
  test('fails for a directory that this user cannot write', async () => {
    const cwd = openFolder()
    const data = join(cwd, 'data')
    mkdirSync(data)
    chmodSync(data, 0o555)
    chmodSync(cwd, 0o555)
    const { code, report } = await bothReports(
      { cwd, args: ['--port', '0', '--store', 'data'] },
      runAsNobody,
    )
    expect(code).toBe(1)
    expect(checkNamed(report, 'store')).toEqual({
      name: 'store',
      verdict: 'fail',
      found: `this user cannot write ${data}`,
      fix: `Change the owner: sudo chown "$USER" ${data}`,
    })
  })

  test('fails when this user cannot create the directory', {
    tags: ['slow'],
  }, async () => {
    const cwd = openFolder()
    chmodSync(cwd, 0o555)
    const { report } = await bothReports(
      { cwd, args: ['--port', '0', '--store', 'new/data'] },
      runAsNobody,
    )
    expect(checkNamed(report, 'store')).toMatchObject({
      verdict: 'fail',
      found: `this user can neither open nor create ${cwd}/new/data in ${cwd}`,
    })
  })

  test('fails for a keys file that this user cannot read', { tags: ['slow'] }, async () => {
    const cwd = openFolder()
    chmodSync(cwd, 0o755)
    mkdirSync(join(cwd, 'keys'), { mode: 0o000 })
    const { report } = await bothReports(
      { cwd, args: ['--port', '0', '--store', 'memory', '--keys-file', 'keys/turnstream.keys'] },
      runAsNobody,
    )
    expect(checkNamed(report, 'keys')).toMatchObject({
      verdict: 'fail',
      found: expect.stringContaining('permission denied'),
      fix: expect.stringContaining('Let this user read it'),
    })
  })

  test.each([
    [128, 'fail', 1],
    [1000, 'warn', 0],
  ] as const)('%i open files for 10000 connections: %s', async (files, verdict, code) => {
    const { report, ...reports } = await bothReports(
      { args: ['--port', '0', '--store', 'memory'] },
      runLimited(files),
    )
    expect(checkNamed(report, 'open files')).toEqual({
      name: 'open files',
      verdict,
      found: `${files} at a time, for 10000 connections`,
      fix: expect.stringContaining('ulimit -n 10100; LimitNOFILE=10100'),
    })
    expect(reports.code).toBe(code)
  })

  test('exits with 0 beside a server that uses the port and the store', {
    tags: ['slow'],
  }, async () => {
    const cwd = folder()
    const server = turnstream(['serve', '--port', '0', '--json'], { cwd })
    const [, port = ''] = await server.printed(/"url":"http:\/\/127\.0\.0\.1:(\d+)"/)
    const { code, report } = await bothReports({ cwd, args: ['--port', port] }, runBuilt)
    expect(checkNamed(report, 'port')?.found).toBe(
      `a turnstream server is running at http://127.0.0.1:${port}`,
    )
    expect(checkNamed(report, 'store')).toMatchObject({
      verdict: 'warn',
      found: expect.stringContaining(`is used by process ${server.child.pid} (node main.js serve)`),
    })
    expect(code).toBe(0)
  })

  test('does not disturb a running server', { tags: ['slow'] }, async () => {
    const cwd = folder()
    const server = turnstream(['serve', '--port', '0', '--json'], { cwd })
    const [, url = ''] = await server.printed(/"url":"([^"]+)"/)
    await runBuilt({ cwd, args: ['--port', new URL(url).port] })
    const submitted = await fetch(`${url}/api/v2/submit`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'Hello' }),
    })
    expect(submitted.status).toBe(202)
    server.child.kill('SIGTERM')
    expect(await server.ended).toBe(0)
  })

  test('exits with 2 for an unknown option', async () => {
    const { ended, stderr } = turnstream(['doctor', '--prot', '1'], { cwd: folder() })
    expect(await ended).toBe(2)
    expect(stderr()).toBe(
      'turnstream: unknown option --prot; did you mean --port?\nTry: turnstream doctor --help\n',
    )
  })
})
