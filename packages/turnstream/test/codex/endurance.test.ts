/**
 * 500 turns through a real app-server that is replaced after every 100.
 * @module-tag slow
 */

import { expect, test, vi } from 'vitest'
import { collectGarbage } from '../../../core/test/async/support.ts'
import { Providers } from '../../src/server.ts'
import { folderOfTest, openLog } from '../log/embedded/support.ts'
import { startServer } from '../server/support.ts'
import { certificate, childrenOf, readTurn, startVendorProcess, submit } from './gateway-support.ts'
import { installedCodex, KEY, startCodex } from './support.ts'

vi.setConfig({ testTimeout: 240_000 })

const TURNS = 500
const AT_ONCE = 10
const MAX_THREADS = 100
const MB = 1024 * 1024

async function heapInUse(): Promise<number> {
  await collectGarbage()
  await collectGarbage()
  return process.memoryUsage().heapUsed
}

test('the memory of the gateway stays flat, and codex stays within its limit', async () => {
  const binary = installedCodex()
  const { port } = await startVendorProcess()
  const env = { PATH: process.env['PATH'], VENDOR_KEY: KEY, ...certificate(folderOfTest()) }
  const others = childrenOf(process.pid).length
  const codex = startCodex(`http://127.0.0.1:${port}`, { binary, env, maxThreads: MAX_THREADS })
  const providers = new Providers([{ provider: codex, models: ['m'], defaultModel: 'm' }])
  const { url } = await startServer({ providers, log: await openLog(folderOfTest()) })
  let largest = 0

  async function run(first: number, last: number): Promise<number> {
    for (let at = first; at < last; at += AT_ONCE) {
      const ids = Array.from({ length: AT_ONCE }, (_, index) => `turn-${at + index}`)
      await Promise.all(ids.map((id) => submit(url, id, id)))
      const read = await Promise.all(ids.map((id) => readTurn(url, id)))
      for (const [index, id] of ids.entries()) expect(read[index]).toContain(`behind codex: ${id}`)
      largest = Math.max(largest, codex.health.residentBytes ?? 0)
    }
    return heapInUse()
  }

  const early = await run(0, MAX_THREADS)
  const late = await run(MAX_THREADS, TURNS)
  expect(late - early).toBeLessThan(8 * MB)
  // 100 threads of about 1 MB each, on top of 140 MB.
  expect(largest).toBeLessThan(400 * MB)
  const replaced = TURNS / MAX_THREADS - 1
  expect(codex.health).toMatchObject({ recycles: replaced, restarts: 0, turns: 0 })
  // Replaced processes are gone.
  const expected = others + 1
  await vi.waitFor(() => expect(childrenOf(process.pid).length).toBe(expected), { timeout: 15_000 })
})
