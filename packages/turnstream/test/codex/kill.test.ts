/**
 * kill -9 of the app-server, of the vendor and of the gateway in the middle of 50 turns.
 * @module-tag slow
 */
import { once } from 'node:events'
import { beforeAll, expect, test, vi } from 'vitest'
import {
  CLOSE,
  childrenOf,
  codexProcesses,
  gatewayFolder,
  openFiles,
  readTurn,
  startGateway,
  startVendorProcess,
  submit,
  type VendorProcess,
  waitForText,
} from './gateway-support.ts'
import { installedCodex } from './support.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 240_000 })

let binary = ''
beforeAll(() => {
  binary = installedCodex()
})

const TURNS = Array.from({ length: 50 }, (_, at) => `turn-${at}`)
const PATIENCE = { timeout: 60_000 }

/** A gateway that has answered one turn, and 50 turns that wait for the vendor. */
async function startTurns() {
  const vendor = await startVendorProcess()
  const folder = gatewayFolder(binary, vendor.port)
  const gateway = await startGateway(folder)
  await expectAnswer(gateway.url, 'first')
  const files = openFiles(gateway.pid)
  await Promise.all(TURNS.map((id) => submit(gateway.url, id, 'hold')))
  await Promise.all(TURNS.map((id) => waitForText(gateway.url, id, 'The beginning')))
  expect(vendor.held).toBe(50)
  return { vendor, folder, gateway, files }
}

async function expectAnswer(url: string, id: string): Promise<void> {
  await submit(url, id, `is this ${id}?`)
  expect(await readTurn(url, id)).toContain(`Hello from behind codex: is this ${id}?`)
}

/** Each turn has the text so far, and an end with this code. */
async function expectEnds(url: string, code: string): Promise<void> {
  for (const frames of await Promise.all(TURNS.map((id) => readTurn(url, id)))) {
    expect(frames).toContain('The beginning')
    expect(frames).toContain('"type":"turn_error"')
    expect(frames).toContain(code)
  }
}

/** The gateway has one process of codex, no zombie, and as many files open as before. */
async function expectNothingLeft({ gateway, files }: Awaited<ReturnType<typeof startTurns>>) {
  await vi.waitFor(() => {
    const children = childrenOf(gateway.pid)
    expect(children).toHaveLength(1)
    expect(children[0]?.state).not.toBe('Z')
    expect(openFiles(gateway.pid)).toBeLessThanOrEqual(files)
  }, PATIENCE)
}

async function kill({ child }: Pick<VendorProcess, 'child'>): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

test('of the app-server: 50 turns end as truncated, and the next one works', async () => {
  const started = await startTurns()
  const { folder, gateway, vendor } = started
  const [pid = 0, ...others] = codexProcesses(folder)
  expect(others).toEqual([])
  process.kill(pid, 'SIGKILL')
  await expectEnds(gateway.url, 'UPSTREAM_TRUNCATED')
  await vi.waitFor(() => expect(vendor.held).toBe(0), PATIENCE)
  await expectAnswer(gateway.url, 'next')
  await expectNothingLeft(started)
  const metrics = await (await fetch(`${gateway.url}/metrics`, { headers: CLOSE })).text()
  expect(metrics).toContain('turnstream_provider_process_restarts_total{provider="codex"} 1\n')
  expect(metrics).toContain('turnstream_provider_process_turns{provider="codex"} 0\n')
})

test('of the vendor: 50 turns end as errors, and the next one works', async () => {
  const started = await startTurns()
  const { gateway, vendor, folder } = started
  const [pid] = codexProcesses(folder)
  await kill(vendor)
  await expectEnds(gateway.url, 'stream disconnected')
  await startVendorProcess(vendor.port)
  await expectAnswer(gateway.url, 'next')
  expect(codexProcesses(folder)).toEqual([pid])
  await expectNothingLeft(started)
})

test('of the gateway: codex exits, and the next gateway ends 50 turns as lost', async () => {
  const { gateway, vendor, folder } = await startTurns()
  await kill(gateway)
  await vi.waitFor(() => expect(codexProcesses(folder)).toEqual([]), PATIENCE)
  await vi.waitFor(() => expect(vendor.held).toBe(0), PATIENCE)
  const second = await startGateway(folder)
  await expectEnds(second.url, 'PRODUCER_LOST')
  await expectAnswer(second.url, 'next')
  second.child.kill('SIGTERM')
  expect(await second.ended).toBe(0)
  expect(codexProcesses(folder)).toEqual([])
})
