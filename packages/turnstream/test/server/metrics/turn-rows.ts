/** What shows that the metrics of turns say what they promise. */

import { expect } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import type { Clock } from '../../../../core/src/index.ts'
import { TOOL_MODELS } from '../../../src/cli/demo/tool-models.ts'
import {
  createOpenaiChatProvider,
  createOpenaiResponsesProvider,
  createScriptedProvider,
} from '../../../src/index.ts'
import { MemoryLog, type ProcessHealth } from '../../../src/server.ts'
import { tool } from '../../turns/some-tools.ts'
import { call, finishedTurn, heldTurn, startServer, type TestServer } from '../support.ts'
import { failingProvider, idle, scrape } from './support.ts'

/** What is waited for comes at once. */
const HASTY: Clock = {
  now: () => 0,
  after: (_ms, task) => {
    const handle = setImmediate(task)
    return () => clearImmediate(handle)
  },
}

async function eventsOf(log: MemoryLog, turnId: string): Promise<number> {
  let count = 0
  const tail = log.tail(turnId, 'events', '0-0', new AbortController().signal)
  for await (const record of tail) count += 'data' in record ? 1 : 0
  return count
}

export const TURN_ROWS = {
  turnstream_turns_started_total: async () => {
    const server = await startServer()
    const before = (await scrape(server)).get('turnstream_turns_started_total')
    await finishedTurn(server, { turnId: 'a', threadId: 'a' })
    // The same once more is no other turn.
    await finishedTurn(server, { turnId: 'a', threadId: 'a' })
    await finishedTurn(server, { turnId: 'b' })
    const after = (await scrape(server)).get('turnstream_turns_started_total')
    expect([before, after]).toEqual([0, 2])
  },
  turnstream_turns_ended_total: async () => {
    const vendors = failingProvider('the-vendors-own')
    const server = await startServer({ more: [vendors], caps: { maxTurnChars: 5 } })
    await finishedTurn(server)
    await finishedTurn(server, { model: 'failing/m' })
    const { runId, call: vendor } = await heldTurn(server)
    await call(server, `POST /api/v2/runs/${runId}/cancel`)
    await idle(server)
    const other = await heldTurn(server)
    other.call.finish()
    await idle(server)
    expect(vendor.signal.aborted).toBe(true)
    const samples = await scrape(server)
    const ended = (labels: string) => samples.get(`turnstream_turns_ended_total{${labels}}`)
    expect(ended('status="failed",code="TURN_TEXT_LIMIT"')).toBe(1)
    expect(ended('status="failed",code="other"')).toBe(1)
    expect(ended('status="aborted",code=""')).toBe(1)
    expect(ended('status="completed",code=""')).toBe(1)
  },
  turnstream_turns_running: async () => {
    const server = await startServer()
    const { call: vendor } = await heldTurn(server)
    const during = (await scrape(server)).get('turnstream_turns_running')
    vendor.finish()
    await idle(server)
    const after = (await scrape(server)).get('turnstream_turns_running')
    expect([during, after]).toEqual([1, 0])
  },
  turnstream_turn_duration_seconds: async () => {
    const clock = fakeClock(1_000_000)
    const server = await startServer({ clock })
    const { call: vendor } = await heldTurn(server)
    await clock.advance(2000)
    vendor.finish()
    await idle(server)
    const samples = await scrape(server)
    expect(samples.get('turnstream_turn_duration_seconds_sum{provider="held"}')).toBe(2)
    expect(samples.get('turnstream_turn_duration_seconds_count{provider="held"}')).toBe(1)
    const bucket = 'turnstream_turn_duration_seconds_bucket{provider="held",le='
    expect([samples.get(`${bucket}"1"}`), samples.get(`${bucket}"2.5"}`)]).toEqual([0, 1])
  },
  turnstream_first_token_seconds: async () => {
    const clock = fakeClock(1_000_000)
    const server = await startServer({ clock })
    const { call: vendor } = await heldTurn(server)
    await clock.advance(500)
    vendor.say('Hello')
    await clock.advance(3000)
    vendor.say(' again')
    vendor.finish()
    await idle(server)
    const samples = await scrape(server)
    expect(samples.get('turnstream_first_token_seconds_sum{provider="held"}')).toBe(0.5)
    expect(samples.get('turnstream_first_token_seconds_count{provider="held"}')).toBe(1)
  },
  turnstream_cancel_seconds: async () => {
    const server = await startServer()
    const { runId } = await heldTurn(server)
    await call(server, `POST /api/v2/runs/${runId}/cancel`)
    await idle(server)
    await finishedTurn(server)
    const samples = await scrape(server)
    expect(samples.get('turnstream_cancel_seconds_count')).toBe(1)
    expect(samples.get('turnstream_cancel_seconds_sum')).toBeLessThan(60)
  },
  turnstream_tokens_total: async () => {
    const server = await startServer()
    await finishedTurn(server)
    const { call: vendor } = await heldTurn(server, { model: 'held/made-up-by-a-client' })
    vendor.finish()
    await idle(server)
    const samples = await scrape(server)
    const tokens = (labels: string) =>
      samples.get(`turnstream_tokens_total{tenant="default",${labels}}`)
    expect(tokens('provider="plain",model="m",direction="input"')).toBe(3)
    expect(tokens('provider="plain",model="m",direction="output"')).toBe(4)
    expect(tokens('provider="held",model="other",direction="output"')).toBe(4)
  },
  turnstream_events_written_total: async () => {
    const log = new MemoryLog()
    const server = await startServer({ log })
    const { turnId } = await finishedTurn(server)
    const written = (await scrape(server)).get('turnstream_events_written_total')
    expect(written).toBe(await eventsOf(log, turnId))
  },
  turnstream_snapshots_written_total: async () => {
    const log = new MemoryLog()
    const server = await startServer({ log })
    const { turnId } = await finishedTurn(server)
    await idle(server)
    const written = (await scrape(server)).get('turnstream_snapshots_written_total')
    expect((await log.snapshot(turnId)).offset).toBe(`1-${written}`)
  },
  turnstream_provider_retries_total: async () => {
    const fetch = () => Promise.resolve(new Response('busy', { status: 503 }))
    const options = { id: 'busy', baseUrl: 'http://localhost:1', fetch, clock: HASTY }
    const server = await startServer({ more: [createOpenaiChatProvider(options)] })
    await finishedTurn(server, { model: 'busy/m' })
    const samples = await scrape(server)
    expect(samples.get('turnstream_provider_retries_total{provider="busy"}')).toBe(2)
  },
  turnstream_unknown_events_total: async () => {
    const body = ['surprise', 'surprise', 'other'].map((type) => `data: {"type":"${type}"}\n\n`)
    const headers = { 'content-type': 'text/event-stream' }
    const fetch = () => Promise.resolve(new Response(body.join(''), { headers }))
    const options = { id: 'new', baseUrl: 'http://localhost:1', fetch, clock: HASTY }
    const reported: string[] = []
    const server = await startServer({
      more: [createOpenaiResponsesProvider(options)],
      onUnknownEvent: (provider, type) => reported.push(`${provider} ${type}`),
    })
    await finishedTurn(server, { model: 'new/m' })
    await finishedTurn(server, { model: 'new/m' })
    const samples = await scrape(server)
    expect(samples.get('turnstream_unknown_events_total{provider="new"}')).toBe(4)
    expect(reported).toEqual(['new surprise', 'new other'])
  },

  turnstream_tool_calls_total: async () => {
    const samples = await scrape(await serverThatCalled('works', 'works', 'fails'))
    const calls = (tool: string, status: string) =>
      samples.get(`turnstream_tool_calls_total{tool="${tool}",status="${status}"}`)
    expect([calls('works', 'succeeded'), calls('fails', 'failed')]).toEqual([2, 1])
  },

  turnstream_tool_seconds: async () => {
    const samples = await scrape(await serverThatCalled('works'))
    expect(samples.get('turnstream_tool_seconds_count{tool="works"}')).toBe(1)
  },

  turnstream_provider_process_up: async () => {
    const { valueOf, provider } = await serverWithProcess()
    expect(await valueOf('up')).toBe(1)
    provider.health = { ...HEALTH, state: 'failing' }
    expect(await valueOf('up')).toBe(0)
  },

  turnstream_provider_process_restarts_total: async () => {
    expect(await (await serverWithProcess()).valueOf('restarts_total')).toBe(3)
  },

  turnstream_provider_process_recycles_total: async () => {
    expect(await (await serverWithProcess()).valueOf('recycles_total')).toBe(4)
  },

  turnstream_provider_process_threads: async () => {
    expect(await (await serverWithProcess()).valueOf('threads')).toBe(12)
  },

  turnstream_provider_process_turns: async () => {
    expect(await (await serverWithProcess()).valueOf('turns')).toBe(2)
  },

  turnstream_provider_process_resident_memory_bytes: async () => {
    const { valueOf, provider } = await serverWithProcess()
    expect(await valueOf('resident_memory_bytes')).toBe(5)
    const { residentBytes: _, ...unknown } = HEALTH
    provider.health = unknown
    expect(await valueOf('resident_memory_bytes')).toBe(0)
  },

  turnstream_tool_source_up: async () => {
    const source = { name: 'files', tools: [], isConnected: true }
    const server = await startServer({ tools: [source] })
    const up = async () => (await scrape(server)).get('turnstream_tool_source_up{source="files"}')
    expect(await up()).toBe(1)
    source.isConnected = false
    expect(await up()).toBe(0)
  },
}

const HEALTH: ProcessHealth = {
  state: 'running',
  threads: 12,
  turns: 2,
  restarts: 3,
  recycles: 4,
  residentBytes: 5,
}

async function serverWithProcess() {
  const recordings = {}
  const plain = createScriptedProvider({ id: 'codex', recordings })
  const provider = { id: 'codex', stream: plain.stream.bind(plain), health: HEALTH }
  const server = await startServer({ more: [provider] })
  const valueOf = async (name: string) =>
    (await scrape(server)).get(`turnstream_provider_process_${name}{provider="codex"}`)
  return { valueOf, provider }
}

/** A server whose model has called these tools, each in a turn of its own. */
async function serverThatCalled(...tools: readonly string[]): Promise<TestServer> {
  const recordings = { m: TOOL_MODELS['server-tools'] }
  const caller = createScriptedProvider({ id: 'caller', recordings, speed: Infinity })
  const server = await startServer({
    more: [caller],
    tools: [
      tool('works', () => 'done'),
      tool('fails', () => {
        throw new Error('no')
      }),
    ],
  })
  for (const name of tools) await finishedTurn(server, { model: 'caller/m', prompt: name })
  return server
}
