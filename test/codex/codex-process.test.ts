/**
 * `turnstream codex` as a process, in front of a real codex app-server.
 * @module-tag slow
 */
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { turnstream } from '../cli/process.ts'
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

/** Processes that work in the home of codex. */
function codexProcesses(): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`) === join(folder, '.turnstream/codex/work')
    } catch {
      return false // not a process, or gone
    }
  })
}

test('answers through codex by default, in a private home, and stops with the gateway', async () => {
  const server = start()
  const [, url = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  expect(await ask(url, 'hi')).toContain('Hello from behind codex: hi')
  expect(codexProcesses()).toHaveLength(1)
  expect(statSync(join(folder, '.turnstream/codex')).mode & 0o777).toBe(0o700)
  const config = readFileSync(join(folder, '.turnstream/codex/config.toml'), 'utf8')
  expect(config).not.toContain(KEY)
  server.child.kill('SIGTERM')
  expect(await server.ended).toBe(0)
  expect(codexProcesses()).toEqual([])
  expect(server.stderr()).not.toContain(KEY)
})

test('kill -9 of the gateway ends codex, and the turns end at the next start', async () => {
  const first = start()
  const [, url = ''] = await first.printed(/^turnstream listening on (\S+)\n/)
  const broken = Array.from({ length: 50 }, () => ask(url, 'hold').catch(() => 'cut'))
  await vi.waitFor(() => expect(vendor.held.size).toBe(50), { timeout: 60_000 })
  first.child.kill('SIGKILL')
  await first.ended
  await vi.waitFor(() => expect(codexProcesses()).toEqual([]), { timeout: 10_000 })
  await vi.waitFor(() => expect(vendor.held.size).toBe(0), { timeout: 10_000 })
  await Promise.all(broken)

  const second = start()
  const [, again = ''] = await second.printed(/^turnstream listening on (\S+)\n/)
  expect(await ask(again, 'still there?')).toContain('Hello from behind codex: still there?')
})

test('a binary that is missing fails the turn, not the gateway', async () => {
  const config = { codex: { binary: '/nowhere/codex', models: ['m'] } }
  const file = join(folder, 'missing.json')
  writeFileSync(file, JSON.stringify(config))
  const args = ['codex', '--port', '0', '--store', 'memory', '--config', file]
  const server = turnstream(args, { cwd: folder, env: { OPENAI_API_KEY: KEY } })
  const [, url = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  expect(await ask(url, 'hi')).toContain('UPSTREAM_UNREACHABLE')
  expect(await (await fetch(`${url}/healthz`)).text()).toBe('{"status":"ok"}')
})
