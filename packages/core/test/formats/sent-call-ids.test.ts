/** Call ids that a vendor refuses: rewritten in the request, and restored where the answer repeats them. */

import { describe, expect, test } from 'vitest'
import {
  createOpenaiChatProvider,
  createOpenaiResponsesProvider,
  type Provider,
} from '../../../turnstream/src/index.ts'
import { toInput } from '../../src/formats/responses/request-out.ts'
import { sentCallIds } from '../../src/formats/sent-call-ids.ts'
import type { OutputItem } from '../../src/index.ts'

const LONG = `call_${'x'.repeat(80)}`
const run = { runId: 'r', turnId: 't', threadId: 'h' }

function rounds(...ids: string[]): OutputItem[] {
  return ids.flatMap((call_id, at): OutputItem[] => [
    { type: 'function_call', id: `c${at}`, call_id, name: 'f', arguments: '{}' },
    { type: 'function_call_output', id: `o${at}`, call_id, output: 'x', success: true },
  ])
}

function bodyOf(init: RequestInit | undefined): string {
  return typeof init?.body === 'string' ? init.body : ''
}

function sent(...ids: string[]): unknown[] {
  const input = toInput(rounds(...ids))
  const results = input.filter(({ type }) => type === 'function_call_output')
  const calls = input.filter(({ type }) => type === 'function_call')
  expect(calls.map(({ call_id }) => call_id)).toEqual(results.map(({ call_id }) => call_id))
  return calls.map(({ call_id }) => call_id)
}

describe('to OpenAI', () => {
  test('ids over 64 characters are shortened, the same for call and output', () => {
    const [first, second] = sent(LONG, 'call_1')
    expect(first).toMatch(/^call_x{1,59}$/)
    expect(second).toBe('call_1')
  })

  test('ids with the same beginning stay different, also from ids that fit', () => {
    const fitting = LONG.slice(0, 64)
    const all = sent(`${LONG}a`, fitting, `${LONG}b`, `${LONG}c`, `${fitting.slice(0, 62)}_1`)
    expect(new Set(all).size).toBe(5)
    expect([all[1], all[4]]).toEqual([fitting, `${fitting.slice(0, 62)}_1`])
    for (const id of all) expect(id).toSatisfy((text: string) => text.length <= 64)
  })

  test('a surrogate pair is not split', () => {
    expect(sent(`${'x'.repeat(63)}😀`)).toEqual(['x'.repeat(63)])
  })

  test('ids of its own calls are sent back as they came', () => {
    const [call, output] = rounds(LONG)
    const own = { ...call, provider_metadata: { openai: { type: 'function_call', id: 'fc_1' } } }
    const input = toInput([own, output] as OutputItem[])
    expect(input.map(({ call_id }) => call_id)).toEqual([LONG, LONG])
  })
})

test('Chat Completions of OpenAI gets short ids, and other servers what they may have encoded', async () => {
  const bodies: string[] = []
  const fetch = async (_url: unknown, init?: RequestInit) => {
    bodies.push(bodyOf(init))
    return new Response('{}', { status: 400 })
  }
  for (const baseUrl of ['https://api.openai.com/v1', 'http://127.0.0.1:1/v1']) {
    const provider = createOpenaiChatProvider({ apiKey: 'k', maxRetries: 0, fetch, baseUrl })
    await provider.stream({ model: 'm', input: rounds(LONG) }, run).toArray()
  }
  expect(bodies.map((body) => body.includes(LONG))).toEqual([false, true])
  const { messages } = JSON.parse(bodies[0] ?? '')
  expect(messages[1].tool_call_id).toBe(messages[0].tool_calls[0].id)
})

test('an answer that repeats a shortened id has the id of the thread', async () => {
  const fetch = async (_url: unknown, init?: RequestInit) => {
    const { input } = JSON.parse(bodyOf(init))
    const item = {
      type: 'function_call',
      id: 'fc_1',
      call_id: input[0].call_id,
      name: 'f',
      arguments: '',
    }
    const done = { ...item, arguments: '{}', status: 'completed' }
    const events = [
      { type: 'response.created', response: { id: 'resp_1', model: 'm' } },
      { type: 'response.output_item.added', output_index: 0, item },
      { type: 'response.output_item.done', output_index: 0, item: done },
      {
        type: 'response.completed',
        response: { id: 'resp_1', status: 'completed', output: [done] },
      },
    ]
    const text = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    return new Response(text.join(''), { headers: { 'content-type': 'text/event-stream' } })
  }
  const provider: Provider = createOpenaiResponsesProvider({ apiKey: 'k', fetch })
  const payloads = await provider.stream({ model: 'm', input: rounds(LONG) }, run).toArray()
  const starts = payloads.filter((payload) => payload.type === 'item_start')
  const ends = payloads.filter((payload) => payload.type === 'item_done')
  expect(starts).toMatchObject([{ call_id: LONG }])
  expect(ends).toMatchObject([{ final_item: { call_id: LONG } }])
})

test('the work is linear in the number of ids, also if all collide', () => {
  const count = 20_000
  const ids = Array.from({ length: count }, (_, at) => `${LONG}${at}`)
  let tries = 0
  const rule = {
    accepts: (id: string) => id.length <= 64,
    rewrite(id: string, suffix: string) {
      tries += 1
      return id.slice(0, 64 - suffix.length) + suffix
    },
  }
  const taken = Array.from({ length: count }, (_, at) => rule.rewrite(LONG, `_${at}`))
  tries = 0
  const map = sentCallIds(rounds(...taken, ...ids), rule)
  expect(map.size).toBe(count)
  expect(new Set([...map.values(), ...taken]).size).toBe(2 * count)
  expect(tries).toBeLessThanOrEqual(3 * count)
})
