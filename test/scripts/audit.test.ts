/** The audit against a registry of the test, by the real npm. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../packages/turnstream/test/cli/support.ts'

const SCRIPT = new URL('../../scripts/audit.mjs', import.meta.url).pathname

/** A workspace whose package has a dependency for use, with another one for development. */
function project(): string {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-audit-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const named = { name: 'project', version: '1.0.0', workspaces: ['product'] }
  const manifest = { ...named, devDependencies: { tool: '1.0.0' } }
  const product = { name: 'product', version: '1.0.0', dependencies: { used: '1.0.0' } }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  mkdirSync(join(folder, 'product'))
  writeFileSync(join(folder, 'product/package.json'), JSON.stringify(product))
  const packages = {
    '': manifest,
    product,
    'node_modules/product': { resolved: 'product', link: true },
    'node_modules/used': { version: '1.0.0' },
    'node_modules/tool': { version: '1.0.0', dev: true },
  }
  const lock = { name: 'project', version: '1.0.0', lockfileVersion: 3, requires: true, packages }
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock))
  return folder
}

interface Advisories {
  readonly [name: string]: 'moderate' | 'high' | 'critical'
}

function advisory(severity: string, index: number) {
  return {
    id: index,
    url: 'https://example.org',
    title: 'A hole',
    severity,
    vulnerable_versions: '<2.0.0',
    cwe: [],
    cvss: { score: 0, vectorString: null },
  }
}

async function registry(status: number, advisories: Advisories = {}): Promise<string> {
  const entries = Object.entries(advisories)
  const body = Object.fromEntries(
    entries.map(([name, severity], index) => [name, [advisory(severity, index)]]),
  )
  const server = createServer((request, response) => {
    request.resume()
    const isAudit = request.url === '/-/npm/v1/security/advisories/bulk'
    response.writeHead(isAudit ? status : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isAudit && status === 200 ? body : {}))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function audit(url: string, args: string[] = [], cwd = project()) {
  const env = {
    ...process.env,
    npm_config_registry: url,
    npm_config_cache: join(cwd, 'cache'),
    npm_config_fetch_retries: '0',
  }
  const child = spawn(process.execPath, [SCRIPT, ...args], { cwd, env })
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  const [code] = (await once(child, 'close')) as [number]
  return { code, said }
}

// npm takes a while to start.
const PATIENCE = { timeout: 60_000 }

test('passes without findings', PATIENCE, async () => {
  const { code, said } = await audit(await registry(200))
  expect([code, said]).toEqual([0, 'audit: nothing of high or critical severity is known\n'])
})

test.each(['high', 'critical'] as const)('a %s finding fails', PATIENCE, async (severity) => {
  const { code, said } = await audit(await registry(200, { used: severity }))
  expect(code).toBe(1)
  expect(said).toContain(`audit: used is ${severity}`)
})

test('a lower finding is reported and passes', { ...PATIENCE, tags: ['slow'] }, async () => {
  const { code, said } = await audit(await registry(200, { used: 'moderate' }))
  expect(code).toBe(0)
  expect(said).toContain('audit: used is moderate')
})

test('development dependencies are ignored', {
  ...PATIENCE,
  tags: ['slow'],
}, async () => {
  const { code, said } = await audit(await registry(200, { tool: 'critical' }))
  expect(code).toBe(0)
  expect(said).not.toContain('tool')
})

test('an unreachable registry is a warning, and fails a release', {
  ...PATIENCE,
  tags: ['slow'],
}, async () => {
  const url = await registry(405)
  const note = await audit(url)
  expect(note.code).toBe(0)
  expect(note.said).toMatch(/^audit: not checked, the registry cannot be asked: 405 .*\n$/)
  expect((await audit(url, ['--required'])).code).toBe(1)
})

test('so is an unknown registry host', { ...PATIENCE, tags: ['slow'] }, async () => {
  const { code, said } = await audit(`http://127.0.0.1:${await freePort()}`)
  expect(code).toBe(0)
  expect(said).toContain('audit: not checked')
})

test('a package without a lock file fails', {
  ...PATIENCE,
  tags: ['slow'],
}, async () => {
  const folder = project()
  rmSync(join(folder, 'package-lock.json'))
  const { code, said } = await audit(await registry(200), [], folder)
  expect(code).toBe(1)
  expect(said).toContain('audit: npm gave no report: ')
})
