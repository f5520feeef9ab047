/** Requests of vendors' clients are listed in the thread that they continue. */

import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { TurnLog } from '../../../core/src/log/turn-log.ts'
import { MemoryLog } from '../../src/server.ts'
import { broken } from '../turns/payloads.ts'
import type { Round } from '../turns/rig.ts'
import { ACME, guardedServer, OTHER } from './auth/support.ts'
import { send } from './responses/support.ts'
import { call } from './support.ts'
import { DOOR_NAMES, DOORS, type DoorName } from './vendor-doors.ts'
import { load, outputLine, say, stage, stream, toolLoop } from './vendor-stage.ts'

const FAILS: Round = [broken('HTTP_503')]

describe.each(DOOR_NAMES)('%s', (door) => {
  test.each([true, false])('lists a tool loop in one thread (streamed: %s)', async (isStreamed) => {
    const { server, open, threadOf, sent } = await stage()
    const said = open(door, { isStreamed })
    const asked = await said.ask('Weather?')
    const told = await said.answerCalls(asked.callIds, 'sun')
    const again = await said.ask('And tomorrow?')
    expect([told.text, again.text]).toEqual(['Sunny.', 'Rain.'])
    const threadId = await threadOf(asked)
    expect([await threadOf(told), await threadOf(again)]).toEqual([threadId, threadId])
    expect(sent(1)).toEqual([
      'system: Be short.',
      'user: Weather?',
      'agent: Let me see. ',
      'function_call call_1',
      'function_call_output call_1sun',
    ])
    expect(sent(2)).toEqual([...sent(1), 'agent: Sunny.', 'user: And tomorrow?'])
    const loaded = await load(server, threadId)
    expect(loaded.flatMap(outputLine)).toEqual([
      'system: Be short. complete',
      'user: Weather? complete',
      'agent: Let me see.  complete',
      'look_up complete "sun"',
      'agent: Sunny. complete',
      'user: And tomorrow? complete',
      'agent: Rain. complete',
    ])
    const streamed = await stream(server, threadId, 'Rain.')
    expect(streamed).toEqual(loaded.filter((output) => 'itemId' in output))
    const body = { threadId, providerId: 'agent', prompt: 'And then?' }
    await call(server, 'POST /api/v2/submit', { body })
    expect(sent(3)).toEqual([...sent(2), 'agent: Rain.', 'user: And then?'])
  })

  test('completes the card of a call with a long id', async () => {
    const { server, open, threadOf } = await stage(toolLoop(`call_${'0123456789'.repeat(9)}`))
    const said = open(door)
    const asked = await said.ask('Weather?')
    const told = await said.answerCalls(asked.callIds, 'sun')
    expect(await threadOf(told)).toBe(await threadOf(asked))
    const lines = (await load(server, await threadOf(told))).flatMap(outputLine)
    expect(lines).toContain('look_up complete "sun"')
  })

  test('gives an edited question a new thread, and leaves the first one as it was', async () => {
    const { server, open, threadOf, sent } = await stage(['1', '2', '3', '4', '5'].map(say))
    const said = open(door)
    const first = await said.ask('a')
    const copy = open(door, { messages: said.messages })
    const threadId = await threadOf(await said.ask('b'))
    expect(threadId).toBe(await threadOf(first))
    if (door === 'responses with previous_response_id') return
    const edited = await copy.ask('c')
    expect(await threadOf(edited)).not.toBe(threadId)
    expect(sent()).toEqual(['system: Be short.', 'user: a', 'agent: 1', 'user: c'])
    expect(await threadOf(await copy.ask('d'))).toBe(await threadOf(edited))
    expect(await threadOf(await said.ask('e'))).toBe(threadId)
    expect((await load(server, threadId)).flatMap(outputLine).at(-1)).toBe('agent: 5 complete')
  })

  test('tries again in the same thread after a failure', async () => {
    const { server, open, threadOf } = await stage([
      ...toolLoop().slice(0, 1),
      FAILS,
      FAILS,
      say('Sunny.'),
    ])
    const said = open(door)
    const asked = await said.ask('Weather?')
    const before = said.messages
    for (const _ of [1, 2]) {
      await expect(said.answerCalls(asked.callIds, 'sun')).rejects.toThrow('HTTP_503')
      said.messages = before
    }
    const told = await said.answerCalls(asked.callIds, 'sun')
    expect(await threadOf(told)).toBe(await threadOf(asked))
    const lines = (await load(server, await threadOf(told))).flatMap(outputLine)
    expect(lines.slice(-2)).toEqual(['look_up complete "sun"', 'agent: Sunny. complete'])
  })

  test('gives the turn a new thread while its own is running', async () => {
    const { server, open, threadOf } = await stage()
    const said = open(door, { model: 'held/m', headers: { 'x-thread-id': 'mine' } })
    const next = server.held.nextCall()
    const running = said.ask('a')
    const held = await next
    const other = await open(door, { headers: { 'x-thread-id': 'mine' } }).ask('b')
    expect(await threadOf(other)).not.toBe('mine')
    held.say('Done')
    held.finish()
    expect(await threadOf(await running)).toBe('mine')
    const later = await open(door, { headers: { 'x-thread-id': 'mine' } }).ask('c')
    expect(await threadOf(later)).toBe('mine')
  })

  test('keeps a sub-agent in a thread of its own while the session is running', async () => {
    const { server, open, threadOf } = await stage()
    const headers = { 'x-claude-code-session-id': 'session' }
    const next = server.held.nextCall()
    const running = open(door, { model: 'held/m', headers }).ask('a')
    const held = await next
    const agent = open(door, { headers })
    const asked = await agent.ask('Weather?')
    const told = await agent.answerCalls(asked.callIds, 'sun')
    expect(await threadOf(asked)).not.toBe('session')
    expect(await threadOf(told)).toBe(await threadOf(asked))
    held.finish()
    await running
  })

  test('gives concurrent requests of one thread a thread each', async () => {
    const { open, threadOf } = await stage(Array.from({ length: 8 }, () => say('So.')))
    const asking = Array.from({ length: 8 }, () =>
      open(door, { headers: { 'x-thread-id': 'mine' } }).ask('a'),
    )
    const threads = await Promise.all((await Promise.all(asking)).map(threadOf))
    expect(threads.filter((id) => id === 'mine').length).toBeGreaterThan(0)
    const others = threads.filter((id) => id !== 'mine')
    expect(new Set(others).size).toBe(others.length)
  })
})

/** Runs `action` before the next turn of the log is created. */
function beforeNextTurn(log: TurnLog, action: () => Promise<unknown>): void {
  const create = log.create.bind(log)
  log.create = async (...args) => {
    log.create = create
    await action()
    return create(...args)
  }
}

describe.each(DOOR_NAMES)('%s, when another continuation is faster,', (door) => {
  test.each([
    ['a new', 'succeeded', say('2'), 2],
    ['the same', 'failed', FAILS, 3],
  ])('lists the turn in %s thread if the other one %s', async (which, _, round, count) => {
    const { server, open, threadOf, sent } = await stage([say('1'), round, say('3'), say('4')])
    const said = open(door)
    const threadId = await threadOf(await said.ask('a'))
    const headers = { 'x-thread-id': threadId }
    const other = () => open('messages', { headers }).ask('b')
    beforeNextTurn(server.log, () => other().catch(() => {}))
    const late = await said.ask('c')
    expect(late.text).toBe('3')
    expect((await threadOf(late)) === threadId).toBe(which === 'the same')
    const { items } = await server.log.listTurns(threadId)
    expect(items).toHaveLength(count)
    expect(sent()).toContain('user: c')
    // The next one goes where this one went.
    expect(await threadOf(await said.ask('d'))).toBe(await threadOf(late))
  })
})

test('a request with an idempotency key never fails because another one is faster', async () => {
  const { server, open } = await stage(['1', '2', '3'].map(say))
  const said = open('chat completions')
  await said.ask('a')
  const threadId = (await server.log.listThreads()).items[0]?.threadId ?? ''
  const headers = { 'x-thread-id': threadId }
  beforeNextTurn(server.log, () => open('messages', { headers }).ask('b'))
  const body = { model: 'agent/m', messages: [...said.messages, { role: 'user', content: 'c' }] }
  const key = { 'idempotency-key': 'key' }
  const answer = await call(server, 'POST /v1/chat/completions', { headers: key, body })
  expect(answer.status).toBe(200)
})

test.each<[DoorName, DoorName]>([
  ['chat completions', 'messages'],
  ['messages', 'responses'],
  ['responses', 'chat completions'],
])('a conversation of %s continues on %s', async (one, other) => {
  const { open, threadOf } = await stage()
  const said = open(one)
  const asked = await said.ask('Weather?')
  await said.answerCalls(asked.callIds, 'sun')
  const messages = {
    'chat completions': [
      { role: 'user', content: 'Weather?' },
      {
        role: 'assistant',
        content: 'Let me see. ',
        tool_calls: [
          {
            id: 'call_1',
            type: 'function',
            function: { name: 'look_up', arguments: '{"a":[1],"city":"Berlin"}' },
          },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'sun' },
      { role: 'assistant', content: 'Sunny.' },
    ],
    responses: [
      { role: 'user', content: [{ type: 'input_text', text: 'Weather?' }] },
      { role: 'assistant', content: 'Let me see. ' },
      {
        type: 'function_call',
        call_id: 'call_1',
        name: 'look_up',
        arguments: '{"a":[1],"city":"Berlin"}',
      },
      { type: 'function_call_output', call_id: 'call_1', output: 'sun' },
      { role: 'assistant', content: [{ type: 'output_text', text: 'Sunny.' }] },
    ],
    'responses with previous_response_id': [],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Weather?' }] },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'Let me see.' },
          { type: 'tool_use', id: 'call_1', name: 'look_up', input: { city: 'Berlin', a: [1] } },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'sun' }] },
      { role: 'assistant', content: 'Sunny.' },
    ],
  }[other]
  const told = await open(other, { messages }).ask('And tomorrow?')
  expect(await threadOf(told)).toBe(await threadOf(asked))
})

test('a branch of previous_response_id gets a new thread', async () => {
  const { server } = await stage(['1', '2', '3', '4'].map(say))
  const ask = async (body: object) => {
    const answer = await send(server, 'POST /v1/responses', {
      model: 'agent/m',
      input: 'a',
      ...body,
    })
    return { id: JSON.parse(answer.text).id, threadId: answer.headers.get('x-thread-id') }
  }
  const first = await ask({})
  const second = await ask({ previous_response_id: first.id })
  const branch = await ask({ previous_response_id: first.id })
  expect(second.threadId).toBe(first.threadId)
  expect(branch.threadId).not.toBe(first.threadId)
  const next = await ask({ previous_response_id: branch.id })
  expect(next.threadId).toBe(branch.threadId)
})

describe('the thread of a request', () => {
  const ROUTES: Record<string, (body: object) => object> = {
    'POST /v1/chat/completions': (body) => body,
    'POST /v1/responses': () => ({ input: 'Hi' }),
    'POST /v1/messages': (body) => ({ ...body, max_tokens: 10 }),
  }
  const PROMPT = { messages: [{ role: 'user', content: 'Hi' }] }

  test.each([
    [{ 'x-thread-id': 'a', 'thread-id': 'b', 'x-claude-code-session-id': 'c' }, 'a'],
    [{ 'thread-id': 'b', 'x-claude-code-session-id': 'c' }, 'b'],
    [{ 'x-claude-code-session-id': 'c' }, 'c'],
    [{ 'x-thread-id': 'not an id', 'thread-id': 'b' }, 'b'],
    [{ 'x-thread-id': '..', 'x-claude-code-session-id': 'c' }, 'c'],
    [{ 'x-thread-id': 'x'.repeat(200) }, 'x'.repeat(200)],
    [{ 'x-thread-id': 'x'.repeat(201) }, undefined],
    [{ 'x-thread-id': '{a}' }, undefined],
    [{ 'x-thread-id': '' }, undefined],
    [{}, undefined],
  ])('is named by the headers %o', async (headers, expected) => {
    const { server } = await stage([])
    for (const [route, toBody] of Object.entries(ROUTES)) {
      const body = { model: 'plain/m', ...toBody(PROMPT) }
      const answer = await call(server, route as 'POST /v1', { headers, body })
      expect(answer.status).toBe(200)
      const threadId = answer.headers.get('x-thread-id')
      if (expected === undefined) expect(threadId).toMatch(/^[\da-f-]{36}$/)
      else expect(threadId).toBe(expected)
    }
    if (expected === undefined) return
    const { items } = await server.log.listTurns(expected)
    expect(items).toHaveLength(3)
  })

  test('does not change what the provider is sent', async () => {
    const { server, sent } = await stage(['1', '2'].map(say))
    const headers = { 'x-thread-id': 'mine' }
    for (const content of ['a', 'b']) {
      const body = { model: 'agent/m', messages: [{ role: 'user', content }] }
      await call(server, 'POST /v1/chat/completions', { headers, body })
      expect(sent()).toEqual([`user: ${content}`])
    }
  })

  test('is never that of another tenant', async () => {
    const server = await guardedServer()
    const options = { url: server.url, model: 'plain/m' }
    const ids = new Set<string>()
    for (const apiKey of [ACME, OTHER]) {
      const tenant = server.log.ofTenant(apiKey === ACME ? 'acme' : 'umbrella')
      const named = DOORS.messages({ ...options, apiKey, headers: { 'x-thread-id': 'mine' } })
      await named.ask('Hi')
      expect((await tenant.listTurns('mine')).items).toHaveLength(1)
      const found = DOORS.messages({ ...options, apiKey, messages: named.messages })
      const { turnId } = await found.ask('And?')
      expect((await tenant.listTurns('mine')).items).toHaveLength(2)
      ids.add(turnId)
    }
    // The same conversation, of a tenant that never had it.
    const stranger = await guardedServer()
    const said = DOORS.messages({ ...options, url: stranger.url, apiKey: ACME })
    await said.ask('Hi')
    const copied = DOORS.messages({
      ...options,
      url: stranger.url,
      apiKey: OTHER,
      messages: said.messages,
    })
    const { turnId } = await copied.ask('And?')
    const theirs = stranger.log.ofTenant('umbrella')
    expect((await theirs.listThreads()).items).toHaveLength(1)
    expect(await theirs.getTurn(turnId)).toMatchObject({ ordinal: 1 })
    expect(ids.size).toBe(2)
  })

  test.each(['turn', 'thread'])('is new when the %s was deleted', async (what) => {
    const { server, open, threadOf } = await stage()
    const said = open('messages')
    const { turnId } = await said.ask('Hi')
    const before = await threadOf({ turnId })
    if (what === 'turn') await server.log.deleteTurn(turnId)
    else await server.log.deleteThread(before)
    said.messages = [
      { role: 'user', content: 'Hi' },
      said.messages.at(-1),
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'x' }] },
    ]
    expect(await threadOf(await said.ask('And?'))).not.toBe(before)
  })

  test('stays when the content of its turns has been deleted', async () => {
    const clock = fakeClock(Date.now())
    const { server } = await stage([], { log: new MemoryLog({ clock }) })
    const ask = (input: object[]) =>
      call(server, 'POST /v1/responses', { body: { model: 'plain/m', store: false, input } })
    const said = [{ role: 'user', content: 'Hi' }]
    const first = await ask(said)
    await clock.advance(10 * 60_000)
    const threadId = first.headers.get('x-thread-id') ?? ''
    expect((await server.log.listTurns(threadId)).items).toMatchObject([{ expired: true }])
    const next = await ask([...said, ...first.json.output, { role: 'user', content: 'And?' }])
    expect(next.headers.get('x-thread-id')).toBe(threadId)
  })

  test('needs no room for a thread when it is continued', async () => {
    const { server, open } = await stage(['1', '2', '3'].map(say), { limits: { maxThreads: 1 } })
    const said = open('chat completions')
    await said.ask('a')
    await said.ask('b')
    await expect(open('chat completions').ask('c')).rejects.toMatchObject({ status: 429 })
    expect(await server.log.countThreads()).toBe(1)
  })

  test('is that of the first request when it is repeated with its key', async () => {
    const { server, open } = await stage(['1', '2', '3'].map(say))
    const said = open('chat completions')
    await said.ask('a')
    const messages = [...said.messages, { role: 'user', content: 'b' }]
    const body = { model: 'agent/m', messages }
    const headers = { 'idempotency-key': 'key' }
    const answers = []
    for (const _ of [1, 2]) {
      const answer = await call(server, 'POST /v1/chat/completions', { headers, body })
      answers.push([answer.status, answer.headers.get('x-thread-id'), answer.json])
    }
    expect(answers[1]).toEqual(answers[0])
    expect(answers[0]?.[0]).toBe(200)
  })

  test('has the metadata of its first request', async () => {
    const { server } = await stage(['1', '2'].map(say))
    let messages = [{ role: 'user', content: 'a' }]
    for (const topic of ['first', 'second']) {
      const body = { model: 'agent/m', messages, user: 'ann', metadata: { topic } }
      const { json, headers } = await call(server, 'POST /v1/chat/completions', { body })
      const thread = await server.log.getThread(headers.get('x-thread-id') ?? '')
      expect(thread?.metadata).toEqual({ user: 'ann', metadata: { topic: 'first' } })
      messages = [...messages, json.choices[0].message, { role: 'user', content: 'b' }]
    }
  })
})
