/**
 * `turnstream serve` as a process, with the configuration of an agent from the documentation.
 * @module-tag slow
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { turnstream } from '../cli/process.ts'
import { startResponsesVendor } from './responses-vendor.ts'
import { installedCodex, KEY } from './support.ts'

vi.setConfig({ testTimeout: 90_000, hookTimeout: 240_000 })

let binary = ''
beforeAll(() => {
  binary = installedCodex()
})

interface Configuration {
  readonly codex: { readonly agent: Record<string, unknown> }
}

/** The configuration in docs/codex.md with the key `agent`. */
function documented(): Configuration {
  const text = readFileSync(new URL('../../../../docs/codex.md', import.meta.url), 'utf8')
  const blocks = [...text.matchAll(/^```json\n(.*?)^```$/gms)].map(([, block = '']) => block)
  return JSON.parse(blocks.find((block) => block.includes('"agent"')) ?? '{}') as Configuration
}

async function start(agent: Record<string, unknown>) {
  const vendor = await startResponsesVendor()
  onTestFinished(() => vendor.close())
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-agent-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }))
  const work = join(folder, 'project')
  mkdirSync(work)
  const { codex } = documented()
  const more = { binary, baseUrl: `${vendor.url}/v1`, keyVariable: 'VENDOR_KEY' }
  const config = { codex: { ...codex, ...more, agent: { ...codex.agent, ...agent } } }
  writeFileSync(join(folder, 'turnstream.config.json'), JSON.stringify(config))
  const server = turnstream(['serve', '--port', '0'], { cwd: folder, env: { VENDOR_KEY: KEY } })
  const [, url = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  return { server, url, folder, work }
}

async function ask(url: string, prompt: string, model = 'codex/agent'): Promise<string> {
  const response = await fetch(`${url}/xapi/threads/t/turn`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, prompt }),
  })
  return response.text()
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

test('the documented agent works beside the chat, in a separate process and home', async () => {
  const { server, url, folder, work } = await start({ directory: 'project' })
  const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] }
  expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining(['codex/gpt-5.5', 'codex/agent']))
  expect(await ask(url, 'run: echo made > file; pwd')).toContain(work)
  expect(readFileSync(join(work, 'file'), 'utf8')).toBe('made\n')
  const early = await (await fetch(`${url}/readyz`)).text()
  expect(early).toContain('"codex":"running"')
  expect(await ask(url, 'hi', 'codex/gpt-5.5')).toContain('Hello from behind codex: hi')
  const ready = await (await fetch(`${url}/readyz`)).text()
  expect(ready).toContain('"codex":"running"')
  const metrics = await (await fetch(`${url}/metrics`)).text()
  expect(metrics).toContain('turnstream_provider_process_threads{provider="codex"} 2')
  expect(statSync(join(folder, '.turnstream/codex-agent')).mode & 0o777).toBe(0o700)
  server.child.kill('SIGTERM')
  expect(await server.ended).toBe(0)
  expect(server.stderr()).not.toContain(KEY)
})

test('kill -9 of the gateway ends the command of the agent', async () => {
  const more = { sandbox: 'danger-full-access', approvals: 'never', models: ['gpt-5.5', 'other'] }
  const { server, url, work } = await start({ directory: 'project', ...more })
  const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] }
  expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining(['codex/agent/other']))
  const broken = ask(url, 'run: echo $$ > pid; sleep 300', 'codex/agent/gpt-5.5').catch(() => 'cut')
  const pid = await eventually(() => {
    const read = Number(readFileSync(join(work, 'pid'), 'utf8'))
    expect(read).toBeGreaterThan(0)
    return read
  })
  server.child.kill('SIGKILL')
  await server.ended
  await broken
  await eventually(() => expect(isAlive(pid)).toBe(false))
})
