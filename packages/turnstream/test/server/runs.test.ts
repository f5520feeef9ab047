import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import { MemoryLog } from '../../src/server.ts'
import { call, finishedTurn, heldTurn, readUntil, sealed, startServer } from './support.ts'

const DAY_MS = 24 * 60 * 60 * 1000

describe('a run', () => {
  test('is returned as one Response', async () => {
    const server = await startServer()
    const { runId, turnId, threadId } = await finishedTurn(server)
    const { status, json } = await call(server, `GET /api/v2/runs/${runId}`)
    expect(status).toBe(200)
    expect(json).toMatchObject({
      ...{ id: runId, turn_id: turnId, thread_id: threadId, status: 'complete' },
      output_items: [
        { type: 'message', origin: 'user', content: 'Hi' },
        { type: 'message', origin: 'agent', content: 'Hello, world.' },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
      finish_reason: 'stop',
      error: null,
    })
  })

  test('in progress is returned as far as it has come', async () => {
    const server = await startServer()
    const { runId, turnId, call: running } = await heldTurn(server)
    const read = async () => (await call(server, `GET /api/v2/runs/${runId}`)).json
    expect(await read()).toMatchObject({ status: 'in_progress', finish_reason: null })
    let text = ''
    for (const word of ['one ', 'two ', 'three ']) {
      text += word
      running.say(word)
      await readUntil(`${server.url}/api/v2/stream/${runId}`, `"${word}"`)
      expect((await read()).output_items.at(-1).content).toBe(text)
    }
    running.finish()
    await sealed(server.log, turnId)
    expect(await read()).toMatchObject({ status: 'complete' })
  })

  test('without events yet is queued and has its ids', async () => {
    const log = new MemoryLog({ clock: fakeClock(5000) })
    const server = await startServer({ log })
    await log.create({ turnId: 't', runId: 'r', threadId: 'h', owner: 'me' }, DAY_MS)
    const { json } = await call(server, 'GET /api/v2/runs/r')
    expect(json).toMatchObject({
      ...{ id: 'r', turn_id: 't', thread_id: 'h', status: 'queued', output_items: [] },
      ...{ created_at: 5000, updated_at: 5000 },
    })
  })

  test('skips events of unknown types', async () => {
    const log = new MemoryLog()
    const server = await startServer({ log })
    const lease = await log.create({ turnId: 't', threadId: 'h', owner: 'me' }, DAY_MS)
    const envelope = {
      event_id: 'e',
      timestamp: 1,
      trace_context: { traceparent: '' },
      run_id: 't',
    }
    const strange = { ...envelope, type: 'strange', payload: { type: 'strange' } }
    await appendTo(log, lease, 'events', [{ seq: 1, data: JSON.stringify(strange) }])
    expect((await call(server, 'GET /api/v2/runs/t')).json).toMatchObject({ status: 'queued' })
  })

  test('is found by its own id, not by its turn id', async () => {
    const server = await startServer()
    await finishedTurn(server, { turnId: 'turn', runId: 'run' })
    expect((await call(server, 'GET /api/v2/runs/run')).json.turn_id).toBe('turn')
    expect((await call(server, 'GET /api/v2/runs/turn')).status).toBe(404)
  })

  test('with expired logs is TURN_EXPIRED', async () => {
    const clock = fakeClock(0)
    const server = await startServer({ log: new MemoryLog({ clock }) })
    const { runId } = await finishedTurn(server)
    await clock.advance(DAY_MS)
    const { status, json } = await call(server, `GET /api/v2/runs/${runId}`)
    expect([status, json.error.code]).toEqual([410, 'TURN_EXPIRED'])
  })
})

describe('a cancel', () => {
  test('ends the turn as aborted, keeps its output and stops the provider', async () => {
    const server = await startServer()
    const { runId, turnId, call: running } = await heldTurn(server)
    running.say('So far')
    const body = { reason: 'changed my mind' }
    const answer = await call(server, `POST /api/v2/runs/${runId}/cancel`, { body })
    expect([answer.status, answer.json]).toEqual([202, { cancelled: true }])
    await sealed(server.log, turnId)
    const { json } = await call(server, `GET /api/v2/runs/${runId}`)
    expect(json).toMatchObject({ status: 'aborted' })
    expect(json.output_items.at(-1).content).toBe('So far')
    expect(running.signal.aborted).toBe(true)
    expect(await server.log.getTurn(turnId)).toMatchObject({ cancelReason: 'changed my mind' })
  })

  test('needs no body', async () => {
    const server = await startServer()
    const { runId, turnId } = await heldTurn(server)
    expect((await call(server, `POST /api/v2/runs/${runId}/cancel`)).status).toBe(202)
    await sealed(server.log, turnId)
  })

  test('may be repeated', async () => {
    const server = await startServer()
    const { runId } = await heldTurn(server)
    const cancel = () => call(server, `POST /api/v2/runs/${runId}/cancel`)
    const answers = await Promise.all([cancel(), cancel(), cancel()])
    for (const { status } of answers) expect([200, 202]).toContain(status)
    expect(answers[0]?.status).toBe(202)
  })

  test('after the end changes nothing and succeeds', async () => {
    const server = await startServer()
    const { runId } = await finishedTurn(server)
    const { status, json } = await call(server, `POST /api/v2/runs/${runId}/cancel`)
    expect([status, json]).toEqual([200, { cancelled: false }])
    expect((await call(server, `GET /api/v2/runs/${runId}`)).json.status).toBe('complete')
  })

  test('of a turn with expired logs succeeds', async () => {
    const clock = fakeClock(0)
    const server = await startServer({ log: new MemoryLog({ clock }) })
    const { runId } = await finishedTurn(server)
    await clock.advance(DAY_MS)
    const { status, json } = await call(server, `POST /api/v2/runs/${runId}/cancel`)
    expect([status, json]).toEqual([200, { cancelled: false }])
  })

  test('at the moment of the end succeeds', async () => {
    class Ending extends MemoryLog {
      override async requestCancel(): Promise<boolean> {
        return false
      }
    }
    const server = await startServer({ log: new Ending() })
    const { runId } = await heldTurn(server)
    const { status, json } = await call(server, `POST /api/v2/runs/${runId}/cancel`)
    expect([status, json]).toEqual([200, { cancelled: false }])
  })

  test('of an unknown run is TURN_UNKNOWN', async () => {
    const { status, json } = await call(await startServer(), 'POST /api/v2/runs/no/cancel')
    expect([status, json.error.code]).toEqual([404, 'TURN_UNKNOWN'])
  })
})
