/** What shows that the metrics of streams, store, requests and process say what they promise. */

import { expect, vi } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { TurnstreamError } from '../../../../core/src/index.ts'
import { MemoryLog } from '../../../src/server.ts'
import { HookedLog } from '../../log/hooked-log.ts'
import { call, finishedTurn, heldTurn, readUntil, startServer } from '../support.ts'
import { idle, scrape, until } from './support.ts'

/** A store that can be told to fail, and how large it is. */
class MoodyLog extends HookedLog {
  failure: TurnstreamError | undefined

  override append(...args: Parameters<HookedLog['append']>): Promise<string> {
    return this.failure === undefined ? super.append(...args) : Promise.reject(this.failure)
  }

  override listThreads(...args: Parameters<HookedLog['listThreads']>) {
    return this.failure === undefined ? super.listThreads(...args) : Promise.reject(this.failure)
  }

  override storedBytes(): Promise<number> {
    return this.failure === undefined ? Promise.resolve(1234) : Promise.reject(this.failure)
  }
}

/** A reader that takes nothing, on a turn that says much. */
async function slowReader() {
  const clock = fakeClock(1_000_000)
  const server = await startServer({ clock })
  const { turnId, call: vendor } = await heldTurn(server)
  const { body } = await server.gateway.app.request(`/xapi/turns/${turnId}/stream`)
  for (let count = 0; count < 6; count++) {
    vendor.say('x'.repeat(100_000))
    await clock.advance(1000)
  }
  return { clock, server, turnId, vendor, read: () => new Response(body).text() }
}

export const SERVER_ROWS = {
  turnstream_lease_losses_total: async () => {
    const log = new MoodyLog()
    const server = await startServer({ log })
    const { call: vendor } = await heldTurn(server)
    log.failure = new TurnstreamError('LEASE_LOST', 'to another')
    vendor.say('Hello')
    await idle(server)
    const samples = await scrape(server)
    expect(samples.get('turnstream_lease_losses_total')).toBe(1)
    expect(samples.get('turnstream_turns_ended_total{status="lost",code=""}')).toBe(1)
  },
  turnstream_orphans_ended_total: async () => {
    const clock = fakeClock(1_000_000)
    const log = new MemoryLog({ clock })
    await log.create({ turnId: 'a', threadId: 'a', owner: 'dead' }, 100)
    await log.ofTenant('acme').create({ turnId: 'a', threadId: 'a', owner: 'dead' }, 100)
    await clock.advance(200)
    const server = await startServer({ log, clock })
    expect((await scrape(server)).get('turnstream_orphans_ended_total')).toBe(2)
  },
  turnstream_stream_clients: async () => {
    const server = await startServer()
    const { turnId, runId, threadId } = await heldTurn(server)
    const leave = new AbortController()
    const { signal } = leave
    const paths = [`/xapi/turns/${turnId}/stream`, `/xapi/threads/${threadId}/stream`]
    for (const path of [`/api/v2/stream/${runId}`, `/api/v2/stream/${runId}`, ...paths]) {
      expect((await fetch(`${server.url}${path}`, { signal })).status).toBe(200)
    }
    const clients = async () => {
      const samples = await scrape(server)
      const of = (kind: string) => samples.get(`turnstream_stream_clients{kind="${kind}"}`)
      return [of('v2'), of('xapi'), of('thread')].join(' ')
    }
    expect(await clients()).toBe('2 1 1')
    leave.abort()
    await until(async () => (await clients()) === '0 0 0')
  },
  turnstream_stream_lag_seconds: async () => {
    const { server, clock, vendor, read } = await slowReader()
    await clock.advance(60_000)
    const behind = (await scrape(server)).get('turnstream_stream_lag_seconds')
    expect(behind).toBeGreaterThanOrEqual(60)
    // Who takes what waits has caught up, also while the turn goes on.
    const all = read()
    await until(async () => (await scrape(server)).get('turnstream_stream_lag_seconds') === 0)
    vendor.finish()
    await all
  },
  turnstream_snapshots_skipped_total: async () => {
    const { server, turnId, vendor, read } = await slowReader()
    vendor.finish()
    const frames = (await read()).split('"type":"message"').length
    const samples = await scrape(server)
    const skipped = samples.get('turnstream_snapshots_skipped_total') ?? 0
    const written = samples.get('turnstream_snapshots_written_total') ?? 0
    expect(skipped).toBeGreaterThan(0)
    expect(skipped + frames).toBeLessThanOrEqual(written)
    // Who comes later misses nothing: what it finds is the newest.
    await call(server, `GET /xapi/turns/${turnId}/stream`)
    expect((await scrape(server)).get('turnstream_snapshots_skipped_total')).toBe(skipped)
  },
  turnstream_reattached_total: async () => {
    const server = await startServer()
    const joined = async () => (await scrape(server)).get('turnstream_reattached_total')
    const add = vi.spyOn(server.log.keyedRecords, 'add')
    const body = JSON.stringify({ model: 'held/m', messages: [{ role: 'user', content: 'Hi' }] })
    const headers = { 'content-type': 'application/json' }
    const ask = (signal?: AbortSignal) =>
      fetch(`${server.url}/v1/chat/completions`, {
        ...{ method: 'POST', headers, body },
        ...(signal && { signal }),
      })
    const leave = new AbortController()
    const next = server.held.nextCall()
    const first = ask(leave.signal)
    const vendor = await next
    leave.abort()
    await expect(first).rejects.toThrow('aborted')
    await until(() => add.mock.settledResults.length === 1)
    expect(await joined()).toBe(0)
    const second = ask()
    vendor.finish()
    await second
    expect(await joined()).toBe(1)
  },
  turnstream_resyncs_total: async () => {
    const server = await startServer()
    const { runId, turnId, threadId } = await finishedTurn(server)
    await call(server, `GET /api/v2/stream/${runId}?from=9-1`)
    await call(server, `GET /xapi/turns/${turnId}/stream?from=9-1`)
    const thread = `${server.url}/xapi/threads/${threadId}/stream?from=another/1-1`
    await readUntil(thread, 'turn_complete')
    const samples = await scrape(server)
    expect(samples.get('turnstream_resyncs_total{reason="foreign"}')).toBe(3)
    expect(samples.get('turnstream_resyncs_total{reason="trimmed"}')).toBe(0)
  },
  turnstream_store_append_seconds: async () => {
    const server = await startServer()
    await finishedTurn(server)
    const samples = await scrape(server)
    expect(samples.get('turnstream_store_append_seconds_count')).toBeGreaterThan(0)
    expect(samples.get('turnstream_store_append_seconds_sum')).toBeLessThan(60)
  },
  turnstream_store_bytes: async () => {
    const server = await startServer({ log: new MoodyLog() })
    expect((await scrape(server)).get('turnstream_store_bytes')).toBe(1234)
    const log = new MoodyLog()
    log.failure = new TurnstreamError('STORE_UNAVAILABLE', 'away')
    const samples = await scrape(await startServer({ log }))
    expect(samples.has('turnstream_turns_running')).toBe(true)
    expect(samples.has('turnstream_store_bytes')).toBe(false)
  },
  turnstream_http_requests_total: async () => {
    const server = await startServer()
    await call(server, 'GET /healthz')
    await call(server, 'GET /api/v2/runs/a-secret-id?token=secret')
    await call(server, 'GET /no/such/path')
    await call(server, 'PUT /healthz')
    const { turnId } = await finishedTurn(server)
    await call(server, `GET /xapi/turns/${turnId}/stream`)
    const samples = await scrape(server)
    const requests = (labels: string) => samples.get(`turnstream_http_requests_total{${labels}}`)
    expect(requests('route="/healthz",method="GET",status="2xx"')).toBe(1)
    expect(requests('route="/api/v2/runs/:runId",method="GET",status="4xx"')).toBe(1)
    expect(requests('route="unmatched",method="GET",status="4xx"')).toBe(1)
    expect(requests('route="unmatched",method="other",status="4xx"')).toBe(1)
    expect(requests('route="/api/v2/submit",method="POST",status="2xx"')).toBe(1)
    expect(requests('route="/xapi/turns/:turnId/stream",method="GET",status="2xx"')).toBe(1)
    expect([...samples.keys()].join(' ')).not.toContain('secret')
  },
  turnstream_http_refusals_total: async () => {
    const server = await startServer({ port: { maxUrlBytes: 100 } })
    await call(server, 'GET /api/v2/runs/r')
    await call(server, 'GET /no/such/path')
    await call(server, `GET /${'x'.repeat(200)}`)
    const samples = await scrape(server)
    const refused = (code: string) => samples.get(`turnstream_http_refusals_total{code="${code}"}`)
    expect([refused('TURN_UNKNOWN'), refused('ROUTE_UNKNOWN')]).toEqual([1, 1])
    expect(refused('URL_TOO_LONG')).toBe(1)
  },
  turnstream_errors_total: async () => {
    const log = new MoodyLog()
    const server = await startServer({ log })
    log.failure = new TurnstreamError('STORE_FULL', 'no room')
    await fetch(`${server.url}/api/v2/threads`)
    const errors = (await scrape(server)).get('turnstream_errors_total{code="STORE_FULL"}')
    expect([errors, server.errors.length]).toEqual([1, 1])
  },
  turnstream_process_start_time_seconds: async () => {
    const started = (await scrape(await startServer())).get('turnstream_process_start_time_seconds')
    expect(started).toBeGreaterThan(1_700_000_000)
    expect(started).toBeLessThanOrEqual(Math.ceil(Date.now() / 1000))
  },
  turnstream_process_resident_memory_bytes: async () => {
    const samples = await scrape(await startServer())
    const heap = samples.get('turnstream_process_heap_bytes')
    expect(samples.get('turnstream_process_resident_memory_bytes')).toBeGreaterThan(heap ?? 0)
  },
  turnstream_process_heap_bytes: async () => {
    const heap = (await scrape(await startServer())).get('turnstream_process_heap_bytes')
    expect(heap).toBeGreaterThan(1_000_000)
  },
  turnstream_process_cpu_seconds_total: async () => {
    const samples = await scrape(await startServer())
    const cpu = (mode: string) =>
      samples.get(`turnstream_process_cpu_seconds_total{mode="${mode}"}`)
    expect(cpu('user')).toBeGreaterThan(0)
    expect(cpu('system')).toBeGreaterThanOrEqual(0)
  },
  turnstream_event_loop_delay_seconds: async () => {
    const server = await startServer()
    const delay = async (statistic: string) =>
      (await scrape(server)).get(`turnstream_event_loop_delay_seconds{statistic="${statistic}"}`) ??
      -1
    // It is looked at from the first question on.
    expect(await delay('max')).toBe(0)
    await until(async () => (await delay('mean')) > 0)
    expect(await delay('p99')).toBeGreaterThanOrEqual(0)
  },
}
