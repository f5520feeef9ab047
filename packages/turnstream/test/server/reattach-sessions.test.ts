/** Agents name their session, and repeat a request only if they did not get its answer. */

import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { MemoryLog } from '../../src/server.ts'
import { ask, begin, contentOf, fail, type Request, STREAM, turnsOf } from './reattach-support.ts'
import { sealed, startServer } from './support.ts'

describe('an agent that lost its network, with a connection that looks open', () => {
  const inSession = (session: string, headers: Request['headers'] = {}): Request => {
    return { headers: { 'x-claude-code-session-id': session, ...headers } }
  }
  const SESSION = inSession('session-1')

  test('gets its turn again, while it runs and once within two minutes of its end', async () => {
    const clock = fakeClock()
    const server = await startServer({ clock, log: new MemoryLog({ clock }) })
    const { wire, call } = await begin(server, SESSION)
    await wire.until('One ')
    const during = await ask(server, SESSION)
    await during.until('One ')
    call.say('two.')
    call.finish()
    for (const each of [wire, during]) await each.until('[DONE]')
    await clock.advance(119_000)
    const after = await ask(server, SESSION)
    await after.until('[DONE]')
    for (const each of [during, after]) {
      expect(each.header('x-turnstream-reattached')).toBe(call.runId)
      expect(contentOf(each)).toContain('two.')
    }
    const { wire: again, call: second } = await begin(server, SESSION)
    second.finish()
    await again.until('[DONE]')
    await clock.advance(120_000)
    const { call: third } = await begin(server, SESSION)
    expect(turnsOf(server)).toBe(3)
    third.finish()
  })

  test.each<[string, Request]>([
    ['another session', inSession('session-2')],
    ['no session', { headers: { 'x-thread-id': 'session-1' } }],
    ['another body', { ...SESSION, body: { ...STREAM, seed: 1 } }],
    ['x-turnstream-reattach: no', inSession('session-1', { 'x-turnstream-reattach': 'no' })],
  ])('gets a new turn with %s', async (_name, request) => {
    const server = await startServer()
    await begin(server, SESSION)
    const { wire } = await begin(server, request)
    await wire.until('One ')
    expect(wire.header('x-turnstream-reattached')).toBeUndefined()
    expect(turnsOf(server)).toBe(2)
  })

  test('gets a new turn if the first failed, was cancelled or would be', async () => {
    const server = await startServer()
    const failed = await begin(server, SESSION)
    fail(failed.call)
    await sealed(server.log, failed.call.runId)
    const cancelled = await begin(server, SESSION)
    await server.log.requestCancel(cancelled.call.runId, 'enough')
    await sealed(server.log, cancelled.call.runId)
    await begin(server, inSession('session-1', { 'turnstream-cancel-on-disconnect': 'true' }))
    await begin(server, SESSION)
    expect(turnsOf(server)).toBe(4)
  })
})
