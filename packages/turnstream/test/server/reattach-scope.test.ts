/** Equal bodies of different clients are different requests, and no client ends what another one reads. */

import { describe, expect, test } from 'vitest'
import { logOf } from '../../src/log/tenants.ts'
import { KeyRing } from '../../src/server.ts'
import { entry, withKey } from './auth/support.ts'
import { ask, begin, cutOff, STREAM, turnsOf, watchDepartures } from './reattach-support.ts'
import { sealed, startServer } from './support.ts'

const TIED = { 'turnstream-cancel-on-disconnect': 'true' }

describe('a repeated request', () => {
  test.each([
    ['thread', { 'x-thread-id': 'a' }, { 'x-thread-id': 'b' }],
    ['session of codex', { 'thread-id': 'a', 'session-id': 's' }, { 'thread-id': 'b' }],
    ['session id of codex', { 'session-id': 'a' }, { 'session-id': 'b' }],
    ['session of Claude Code', { 'x-claude-code-session-id': 'a' }, {}],
    ['user', { 'x-openwebui-user-id': 'a' }, { 'x-openwebui-user-id': 'b' }],
    ["user's address", { 'x-openwebui-user-email': 'a' }, { 'x-openwebui-user-email': 'b' }],
    ['address of a proxy', { 'x-forwarded-email': 'a' }, { 'x-forwarded-email': 'b' }],
    ['session of opencode', { 'x-session-affinity': 'a' }, { 'x-session-affinity': 'b' }],
    ['key of Gemini', { 'x-goog-api-key': 'a' }, { 'x-goog-api-key': 'b' }],
    ['key of Azure', { 'api-key': 'a' }, { 'api-key': 'b' }],
    ['key of an open server', { authorization: 'Bearer a' }, { authorization: 'Bearer b' }],
    ['key header', { 'x-api-key': 'a' }, { 'x-api-key': 'b' }],
  ])('with another %s gets a new turn', async (_name, first, second) => {
    const server = await startServer()
    const request = { headers: { ...first } }
    // The turns of sessions have a note of their own.
    const departures = watchDepartures(server.log)
    const isSession = ['thread-id', 'x-claude-code-session-id'].some((name) => name in first)
    const { wire, call } = await begin(server, request)
    await wire.until('One ')
    wire.close()
    await departures(isSession ? 2 : 1)

    const other = await begin(server, { headers: { ...second } })
    await other.wire.until('One ')
    expect(other.wire.header('x-turnstream-reattached')).toBeUndefined()
    expect(turnsOf(server)).toBe(2)

    const again = await ask(server, request)
    await again.until('One ')
    expect(again.header('x-turnstream-reattached')).toBe(call.runId)
  })

  test('with another user in its body gets a new turn', async () => {
    const server = await startServer()
    await cutOff(server, { body: { ...STREAM, user: 'a' } })
    const { wire } = await begin(server, { body: { ...STREAM, user: 'b' } })
    await wire.until('One ')
    expect(wire.header('x-turnstream-reattached')).toBeUndefined()
  })

  test('with another key of the same tenant gets a new turn', async () => {
    const keys = new KeyRing([entry('ts_one', 'acme', 'one'), entry('ts_two', 'acme', 'two')])
    const server = await startServer({ keys })
    const departures = watchDepartures(logOf(server.log, 'acme'))
    const [one, two] = ['ts_one', 'ts_two'].map((key) => ({ headers: withKey(key) }))
    const { wire, call } = await begin(server, one)
    await wire.until('One ')
    wire.close()
    await departures(1)
    const other = await begin(server, two)
    await other.wire.until('One ')
    expect(other.wire.header('x-turnstream-reattached')).toBeUndefined()
    const again = await ask(server, one)
    await again.until('One ')
    expect(again.header('x-turnstream-reattached')).toBe(call.runId)
  })

  test('that cancels on disconnect gets a turn of its own, and cancels only that', async () => {
    const server = await startServer()
    const session = { 'thread-id': 'a' }
    const { wire, call } = await begin(server, { headers: session })
    await wire.until('One ')
    const tied = await begin(server, { headers: { ...session, ...TIED } })
    await tied.wire.until('One ')
    tied.wire.close()
    await sealed(server.log, tied.call.runId)
    call.say('two.')
    call.finish()
    await wire.until('[DONE]')
    expect(wire.text).toContain('two.')
    expect(await server.log.getTurn(call.runId)).toMatchObject({ status: 'complete' })
  })
})

describe('two requests with one idempotency key that cancel on disconnect', () => {
  const request = { headers: { ...TIED, 'idempotency-key': 'one' } }

  test.each(['first', 'second'])(
    'cancel the turn when both have left, the %s first',
    async (one) => {
      const server = await startServer()
      const { wire, call } = await begin(server, request)
      await wire.until('One ')
      const second = await ask(server, request)
      await second.until('One ')
      const [first, last] = one === 'first' ? [wire, second] : [second, wire]
      first.close()
      call.say('two ')
      await last.until('two ')
      call.say('three ')
      await last.until('three ')
      expect(await server.log.getTurn(call.runId)).toMatchObject({ status: 'in_progress' })
      expect(call.signal.aborted).toBe(false)
      last.close()
      await sealed(server.log, call.runId)
      expect(await server.log.getTurn(call.runId)).toMatchObject({ status: 'aborted' })
    },
  )
})
