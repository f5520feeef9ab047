/**
 * `turnstream codex` as a process, in front of a real codex app-server.
 * @module-tag slow
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { turnstream } from '../cli/process.ts'
import { codexProcesses } from './gateway-support.ts'
import { type ResponsesVendor, startResponsesVendor } from './responses-vendor.ts'
import { installedCodex, KEY } from './support.ts'

vi.setConfig({ testTimeout: 90_000, hookTimeout: 240_000 })

let vendor: ResponsesVendor
let folder = ''

beforeAll(async () => {
  vendor = await startResponsesVendor()
  folder = mkdtempSync(join(tmpdir(), 'turnstream-codex-'))
  const codex = {
    binary: installedCodex(),
    baseUrl: `${vendor.url}/v1`,
    keyVariable: 'VENDOR_KEY',
    models: ['m'],
  }
  writeFileSync(join(folder, 'turnstream.config.json'), JSON.stringify({ codex }))
})
afterAll(async () => {
  await vendor.close()
  rmSync(folder, { recursive: true, force: true })
})

function start() {
  const args = ['codex', '--port', '0', '--max-running-turns', '100']
  return turnstream(args, { cwd: folder, env: { VENDOR_KEY: KEY } })
}

async function ask(url: string, content: string): Promise<string> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] }),
  })
  return response.text()
}

test('answers through codex by default, in a private home, and stops with the gateway', async () => {
  const server = start()
  const [, url = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  expect(await ask(url, 'hi')).toContain('Hello from behind codex: hi')
  expect(codexProcesses(folder)).toHaveLength(1)
  const ready = { status: 'ok', processes: { codex: 'running' } }
  expect(await (await fetch(`${url}/readyz`)).json()).toEqual(ready)
  expect(statSync(join(folder, '.turnstream/codex')).mode & 0o777).toBe(0o700)
  const [home = ''] = readdirSync(join(folder, '.turnstream/codex'))
  const config = readFileSync(join(folder, '.turnstream/codex', home, 'config.toml'), 'utf8')
  expect(config).toContain('model_provider = "upstream"')
  expect(config).not.toContain(KEY)
  server.child.kill('SIGTERM')
  expect(await server.ended).toBe(0)
  expect(codexProcesses(folder)).toEqual([])
  expect(readdirSync(join(folder, '.turnstream/codex'))).toEqual([])
  expect(server.stderr()).not.toContain(KEY)
})

test('doctor runs a turn through the same binary', async () => {
  const args = ['doctor', '--codex', '--port', '0', '--json']
  const { ended, stdout } = turnstream(args, { cwd: folder, env: { VENDOR_KEY: KEY } })
  await ended
  const { checks } = JSON.parse(stdout()) as { checks: { name: string; verdict: string }[] }
  const own = checks.filter(({ name }) => name.startsWith('codex '))
  expect(own).toMatchObject([
    { name: 'codex key', verdict: 'ok' },
    { name: 'codex binary', verdict: 'ok', found: expect.stringContaining('0.169.0') as unknown },
    { name: 'codex handshake', verdict: 'ok' },
    { name: 'codex turn', verdict: 'ok' },
  ])
  expect(vendor.bodies.length).toBe(1)
})

test('a binary that is missing fails the turn, not the gateway', async () => {
  const args = ['codex', '--port', '0', '--store', 'memory', '--binary', '/nowhere/codex']
  const server = turnstream(args, { cwd: folder, env: { VENDOR_KEY: KEY } })
  const [, url = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  expect(await ask(url, 'hi')).toContain('UPSTREAM_UNREACHABLE')
  expect(await (await fetch(`${url}/healthz`)).text()).toBe('{"status":"ok"}')
  expect((await fetch(`${url}/readyz`)).status).toBe(502)
  expect(server.stderr()).toContain('/nowhere/codex is not executable')
})
