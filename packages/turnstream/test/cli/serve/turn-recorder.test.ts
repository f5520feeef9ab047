import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import {
  readTurnRecording,
  TurnRecorder,
  turnRecordingName,
} from '../../../src/cli/serve/turn-recorder.ts'
import type { ObservedCall } from '../../../src/index.ts'
import { logOf } from '../../../src/log/tenants.ts'
import { MemoryLog } from '../../../src/server.ts'
import { recordingsIn, responseText, testFolder } from '../cassettes/support.ts'

const SWEEP_MS = 60_000

async function setUp(options: { maxTurnBytes?: number; directory?: string; log?: TurnLog } = {}) {
  const { directory = testFolder(), maxTurnBytes = 1e6, log = new MemoryLog() } = options
  const clock = fakeClock(1000)
  const errors: unknown[] = []
  const secrets = ['configured-secret']
  const recorder = new TurnRecorder({
    directory,
    maxRecordedTurnBytes: maxTurnBytes,
    maxRecordedBytes: 1e7,
    secrets,
  })
  await recorder.start({ log, clock, onError: (error) => errors.push(error) })
  const read = async (tenant: string, turnId: string) => {
    await recorder.stop()
    return readTurnRecording(directory, { tenant, turnId })
  }
  return { recorder, directory, clock, log, read, errors }
}

async function createTurn(log: TurnLog, tenant: string, turnId: string) {
  const turn = { turnId, runId: turnId, threadId: `thread-of-${turnId}`, owner: 'test' }
  await logOf(log, tenant).create(turn, 60_000)
}

function call(more: Partial<ObservedCall> = {}): ObservedCall {
  return {
    runId: 't',
    turnId: 't',
    threadId: 'h',
    attempt: 1,
    method: 'POST',
    url: 'https://vendor.example/v1/messages',
    headers: { 'x-api-key': 'key-of-the-vendor' },
    body: '{"prompt":"configured-secret"}',
    ...more,
  }
}

function play(recorder: TurnRecorder, observed: ObservedCall, text: string): void {
  const observer = recorder.observe(observed)
  observer?.response(200, {})
  observer?.chunk(new TextEncoder().encode(text))
  observer?.end('complete')
}

describe('a recorder of turns', () => {
  test('writes one cassette per turn: its rounds and retries are calls', async () => {
    const { recorder, clock, directory, read } = await setUp()
    play(recorder, call(), 'one')
    await clock.advance(50)
    play(recorder, call({ attempt: 2 }), 'two')
    play(recorder, call({ round: 2 }), 'three key-of-the-vendor')
    const cassette = await read('default', 't')
    expect(cassette?.header).toMatchObject({ turnId: 't', threadId: 'h', createdAt: 1000 })
    expect([0, 1, 2].map((index) => responseText(cassette!, index))).toEqual([
      'one',
      'two',
      'three [redacted]',
    ])
    expect(cassette?.calls.map(({ at }) => at)).toEqual([0, 50, 50])
    expect(cassette?.calls[0]?.request?.body).toEqual({ prompt: '[redacted]' })
    const [name = ''] = recordingsIn(directory)
    expect(statSync(join(directory, name)).mode & 0o777).toBe(0o600)
  })

  test('starts again for a new turn with the same id', async () => {
    const { recorder, read } = await setUp()
    play(recorder, call(), 'old')
    play(recorder, call(), 'new')
    const cassette = await read('default', 't')
    expect(cassette?.calls).toHaveLength(1)
    expect(responseText(cassette!)).toBe('new')
  })

  test('keeps tenants apart', async () => {
    const { recorder, read, directory } = await setUp()
    play(recorder, call({ tenant: 'acme' }), 'of acme')
    play(recorder, call({ tenant: 'other' }), 'of other')
    expect(recordingsIn(directory)).toEqual(expect.any(Array))
    expect(responseText((await read('acme', 't'))!)).toBe('of acme')
    expect(responseText((await read('other', 't'))!)).toBe('of other')
    expect(await read('default', 't')).toBeUndefined()
  })

  test('stops at the limit of a turn', async () => {
    const { recorder, read } = await setUp({ maxTurnBytes: 1000 })
    play(recorder, call(), 'x'.repeat(2000))
    const cassette = await read('default', 't')
    expect(cassette?.calls[0]?.end?.reason).toBe('limit')
  })

  test('records nothing before it starts, nor a round whose first call it missed', async () => {
    const secrets: string[] = []
    const limits = { maxRecordedTurnBytes: 1000, maxRecordedBytes: 1000 }
    const idle = new TurnRecorder({ directory: testFolder(), ...limits, secrets })
    expect(idle.observe(call())).toBeUndefined()
    await idle.stop()
    const { recorder } = await setUp()
    expect(recorder.observe(call({ round: 2 }))).toBeUndefined()
    await recorder.stop()
  })

  test('never fails a turn', async () => {
    const { recorder, errors, read } = await setUp()
    expect(recorder.observe(call({ headers: null as never }))).toBeUndefined()
    const observer = recorder.observe(call())
    observer?.response(200, null as never)
    observer?.chunk(null as never)
    observer?.end('failed')
    expect(errors).toHaveLength(3)
    expect((await read('default', 't'))?.calls[0]?.end?.reason).toBe('failed')
  })

  test('refuses to start in a directory that cannot be made', async () => {
    await expect(setUp({ directory: '/dev/null/x' })).rejects.toThrow('/dev/null')
  })
})

describe('recordings', () => {
  test('are deleted with their turn', async () => {
    const { recorder, clock, log, directory } = await setUp()
    await createTurn(log, 'acme', 'kept')
    await createTurn(log, 'acme', 'gone')
    for (const turnId of ['kept', 'gone']) play(recorder, call({ tenant: 'acme', turnId }), 'text')
    await expect.poll(() => recordingsIn(directory)).toHaveLength(2)
    await clock.advance(SWEEP_MS)
    expect(recordingsIn(directory)).toHaveLength(2)
    await logOf(log, 'acme').deleteTurn('gone')
    await clock.advance(SWEEP_MS)
    await recorder.stop()
    expect(recordingsIn(directory)).toEqual([turnRecordingName('acme', 'kept')])
  })

  test('of an earlier process are found, and deleted if their turn is gone or they are damaged', async () => {
    const { recorder, log, directory } = await setUp()
    await createTurn(log, 'default', 'kept')
    for (const turnId of ['kept', 'gone']) play(recorder, call({ turnId }), 'text')
    await recorder.stop()
    writeFileSync(join(directory, 'rec-damaged.cassette.jsonl'), 'no cassette')
    writeFileSync(join(directory, 'notes.txt'), 'mine')
    const later = await setUp({ directory, log })
    await later.recorder.stop()
    expect(recordingsIn(directory)).toEqual(['notes.txt', turnRecordingName('default', 'kept')])
  })

  test('stay while the store is away', async () => {
    const { recorder, clock, log, directory } = await setUp()
    play(recorder, call(), 'text')
    await expect.poll(() => recordingsIn(directory)).toHaveLength(1)
    await log.close()
    await clock.advance(SWEEP_MS)
    await recorder.stop()
    expect(recordingsIn(directory)).toHaveLength(1)
  })
})
