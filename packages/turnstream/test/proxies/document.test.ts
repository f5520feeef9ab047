// @module-tag slow
/** docs/security.md, followed to the letter: a deployment, a proxy before it, and the test from outside. */
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { linesOf, outdent, pattern } from '../../../../test/repository/printed.ts'
import { read } from '../../../../test/repository/sources.ts'
import { section } from '../../../../test/repository/tables.ts'
import { SETTINGS } from '../../src/cli/serve/settings.ts'
import { deploy } from './deployment.ts'
import { H2Client } from './h2-client.ts'
import { type Proxy, startProxy } from './proxy.ts'
import { HOST, PROXIES, recipe } from './recipes.ts'

// Five processes are started, on a machine that may have much else to do.
const TIMEOUT = 60_000
const DOCUMENT = read('docs/security.md')

// Blocks of `sh`, each followed by what it prints.
const LOOKS = [
  ...section(DOCUMENT, 'Test from outside').matchAll(
    /^```sh\n([^`]*)^```\n\n((?: {4}[^\n]*\n)+)/gm,
  ),
].map(([, code = '', printed = '']) => ({ code, printed: outdent(printed) }))

/** Has curl find the proxy and trust it; nothing else of the commands is changed. */
async function curlTo(proxy: Proxy, code: string, key: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-look-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const certificate = join(folder, 'certificate.pem')
  writeFileSync(certificate, proxy.certificate)
  const found = `curl --cacert ${certificate} --connect-to ${HOST}:443:127.0.0.1:${proxy.port}`
  const script = `exec 2>&1\n${code.replaceAll(/^( *)curl /gm, (_, indent) => `${indent}${found} `)}`
  const env = { ...process.env, KEY: key }
  // The exit code is that of the last command, which may have been cut off on purpose.
  const run = promisify(execFile)('sh', ['-c', `${script}\ntrue`], { env })
  return (await run).stdout
}

describe.each(PROXIES)('with %s', { timeout: TIMEOUT }, (name) => {
  test('the check from outside prints what the document shows', async () => {
    const { instances, key } = await deploy()
    const proxy = await startProxy(name, { upstreams: instances.map(({ url }) => url) })
    expect(LOOKS).toHaveLength(4)
    for (const { code, printed } of LOOKS) {
      const lines = linesOf(await curlTo(proxy, code, key))
      expect(`${lines.join('\n')}\n`).toMatch(pattern(printed))
    }
    await expect.poll(() => proxy.logged(), { timeout: TIMEOUT }).toContain('/api/v2/stream/look')
    const [first, second] = instances.map(({ process }) => process.stdout() + process.stderr())
    for (const log of [proxy.logged(), first, second]) expect(log).not.toContain(key)
  })
})

test('the documented environment is in effect', { timeout: TIMEOUT }, async () => {
  const { instances, key, folder } = await deploy()
  const modes = readdirSync(folder).map((file) => statSync(join(folder, file)).mode & 0o777)
  expect(modes).toEqual(Array(4).fill(0o600))
  expect(statSync(folder).mode & 0o777).toBe(0o700)

  const authorization = `Bearer ${key}`
  const direct = await fetch(`${instances[0].url}/api/v2/threads`, { headers: { authorization } })
  // It has the name of the recipes, and no other.
  expect(direct.status).toBe(421)

  const upstreams = instances.map(({ url }) => url)
  const client = await H2Client.open(await startProxy('nginx', { upstreams }))
  const ask = async (origin: string) => {
    const headers = { origin, 'sec-fetch-site': 'cross-site', authorization }
    const answer = client.ask('/api/v2/threads', { headers })
    await answer.ended()
    return [answer.status, answer.headers['access-control-allow-origin']]
  }
  expect(await ask('https://app.example.com')).toEqual([200, 'https://app.example.com'])
  expect(await ask('https://evil.example')).toEqual([403, undefined])
})

test('the documented limits are settings', () => {
  const named = [...section(DOCUMENT, 'Limits').matchAll(/`([a-z]+[A-Z]\w+)`/g)]
  expect(named.length).toBeGreaterThan(3)
  expect(named.map(([, name = '']) => name).filter((name) => !(name in SETTINGS))).toEqual([])
})

test('the timeouts and sizes of the recipes follow from the defaults', () => {
  const heartbeatS = Number.parseInt(SETTINGS.heartbeat.standard, 10)
  const keepAliveS = Number.parseInt(SETTINGS.keepAliveTimeout.standard, 10)
  for (const [read_, keep] of [
    [/proxy_read_timeout (\d+)s;/, /keepalive_timeout (\d+)s;/],
    [/read_timeout (\d+)s/, /keepalive (\d+)s/],
  ] as const) {
    const text = PROXIES.map(recipe).find((each) => read_.test(each) && keep.test(each)) ?? ''
    expect(Number(read_.exec(text)?.[1])).toBe(4 * heartbeatS)
    expect(Number(keep.exec(text)?.[1])).toBeLessThan(keepAliveS)
  }
  expect(Number(SETTINGS.maxVendorBodyBytes.standard)).toBe(32 * 1024 * 1024)
  expect(Number(SETTINGS.maxHeaderBytes.standard)).toBe(16 * 1024)
  expect(Number(SETTINGS.maxUrlBytes.standard)).toBe(8 * 1024)
})
