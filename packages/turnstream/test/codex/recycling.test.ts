/**
 * Processes of codex that replace each other under load: no turn fails, and no other host is contacted.
 * @module-tag slow
 */
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test, vi } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { folderOfTest } from '../log/embedded/support.ts'
import { certificate, startVendorProcess } from './gateway-support.ts'
import { startLoggingProxy } from './logging-proxy.ts'
import { installedCodex, KEY, startCodex } from './support.ts'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 })

let binary = ''
beforeAll(() => {
  binary = installedCodex()
})

const AT_ONCE = 8

test.each([
  { turns: 500, maxThreads: 14 },
  { turns: 40, maxThreads: 10 },
])(
  '$turns turns, a process for $maxThreads: none fails, and the proxy sees nothing',
  async ({ turns, maxThreads }) => {
    const home = folderOfTest()
    const { port } = await startVendorProcess()
    const proxy = await startLoggingProxy()
    const env = {
      PATH: process.env['PATH'],
      VENDOR_KEY: KEY,
      ...certificate(folderOfTest()),
      ...proxy.env,
    }
    const codex = startCodex(`http://127.0.0.1:${port}`, {
      binary,
      env,
      maxThreads,
      home,
      idleTimeoutMs: 20_000,
    })
    const failed: unknown[] = []
    let next = 0

    async function work(): Promise<void> {
      for (let at = next++; at < turns; at = next++) {
        const content = `turn ${at}`
        const input = [{ type: 'message', id: 'u', origin: 'user', content } as const]
        const run = { runId: `r${at}`, turnId: `t${at}`, threadId: `h${at}` }
        const events = await codex.stream({ model: 'm', input }, run).toArray()
        const isAnswered = JSON.stringify(events).includes(`behind codex: ${content}`)
        if (events.at(-1)?.type !== 'response_done' || !isAnswered) failed.push(events.at(-1))
      }
    }

    await Promise.all(Array.from({ length: AT_ONCE }, work))
    expect(failed).toEqual([])
    expect(codex.health).toMatchObject({ restarts: 0, turns: 0 })
    expect(codex.health.recycles).toBeGreaterThanOrEqual(Math.floor(turns / (maxThreads + AT_ONCE)))
    if (turns === 500) expect(codex.health.recycles).toBeGreaterThanOrEqual(30)
    // The homes of replaced processes are gone.
    await eventually(() => expect(readdirSync(home)).toHaveLength(1))
    expect(proxy.requests).toEqual([])
  },
)

test.each([
  ['catalog.json', 'response_error'],
  ['config.toml', 'response_done'],
])('with an empty %s a turn is a %s, and the proxy sees nothing', async (file, end) => {
  const wrapper = join(folderOfTest(), 'codex')
  const script = `#!/bin/sh\n: > "$CODEX_HOME/${file}"\nexec '${binary}' "$@"\n`
  writeFileSync(wrapper, script, { mode: 0o755 })
  const { port } = await startVendorProcess()
  const proxy = await startLoggingProxy()
  const env = { PATH: process.env['PATH'], VENDOR_KEY: KEY, ...proxy.env }
  const codex = startCodex(`http://127.0.0.1:${port}`, { binary: wrapper, env })
  const input = [{ type: 'message', id: 'u', origin: 'user', content: 'hi' } as const]
  const run = { runId: 'r', turnId: 't', threadId: 'h' }
  const events = await codex.stream({ model: 'm', input }, run).toArray()
  expect(events.at(-1)?.type).toBe(end)
  await codex.stop()
  expect(proxy.requests).toEqual([])
})
