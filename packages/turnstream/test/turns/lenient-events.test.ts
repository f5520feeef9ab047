/** V9: a provider that leaves fields out, or counts in its own way, gets its turn written in full. */

import { expect, test } from 'vitest'
import type { StreamEventPayload } from '../../../core/src/index.ts'
import { open } from './payloads.ts'
import { newRig, outputsOf, payloadsOf } from './rig.ts'

const DONE = { type: 'response_done', response_id: 'v', status: 'complete', finish_reason: 'stop' }

/** A payload that the types do not allow. */
function lenient(payload: { type: string; [field: string]: unknown }): StreamEventPayload {
  return payload as never
}

async function play(round: readonly StreamEventPayload[]) {
  const rig = newRig({ rounds: [round] })
  await rig.submit()
  await rig.settled()
  const turn = await rig.log.getTurn('r')
  const [payloads, outputs] = [await payloadsOf(rig.log), await outputsOf(rig.log)]
  return { payloads, outputs, turn, errors: rig.errors }
}

test('V9 a final_item is completed before it is written', async () => {
  const { payloads, outputs, errors } = await play([
    open('a', { item_type: 'reasoning' }),
    lenient({ type: 'item_done', item_id: 'a', final_item: { content: 'Hm' } }),
    open('b'),
    lenient({ type: 'item_done', item_id: 'b', final_item: { content: 'Hi' } }),
    lenient(DONE),
  ])
  const items = payloads.flatMap((each) => (each.type === 'item_done' ? [each.final_item] : []))
  expect(items.slice(1)).toEqual([
    { type: 'reasoning', id: 'r:1', content: 'Hm' },
    { type: 'message', id: 'r:2', content: 'Hi', origin: 'agent' },
  ])
  expect(outputs.slice(-3)).toMatchObject([
    { type: 'thinking', status: 'complete' },
    { type: 'message', status: 'complete' },
    { type: 'turn_complete', status: 'complete' },
  ])
  expect(errors).toEqual([])
})

test('a final_item is completed from what was said before it is written', async () => {
  const { payloads, outputs, errors } = await play([
    open('a'),
    lenient({ type: 'item_delta', item_id: 'a', delta_content: 'Hello' }),
    lenient({ type: 'item_done', item_id: 'a', final_item: {} }),
    open('b', { item_type: 'function_call', name: 'read_file' }),
    lenient({ type: 'item_done', item_id: 'b', final_item: { call_id: 'c', arguments: '{}' } }),
    open('d', { item_type: 'function_call', name: 'list', call_id: 'e' }),
    lenient({ type: 'item_delta', item_id: 'd', delta_content: '{"a":1}' }),
    lenient({ type: 'item_done', item_id: 'd', final_item: {} }),
    lenient(DONE),
  ])
  const items = payloads.flatMap((each) => (each.type === 'item_done' ? [each.final_item] : []))
  expect(items.slice(1)).toEqual([
    { type: 'message', id: 'r:1', content: 'Hello', origin: 'agent' },
    { type: 'function_call', id: 'r:2', name: 'read_file', arguments: '{}', call_id: 'c' },
    { type: 'function_call', id: 'r:3', name: 'list', arguments: '{"a":1}', call_id: 'e' },
  ])
  expect(outputs.slice(-3)).toMatchObject([
    { type: 'tool_call', status: 'create', toolName: 'read_file', callId: 'c' },
    { type: 'tool_call', status: 'create', toolName: 'list', toolArguments: { a: 1 } },
    { type: 'turn_complete' },
  ])
  expect(errors).toEqual([])
})

test.each(['many', null, { prompt_tokens: 1 }])(
  'V9 usage %j does not cost the end',
  async (usage) => {
    const update = lenient({ type: 'usage_update', response_id: 'v', usage })
    const { payloads, outputs, turn, errors } = await play([update, lenient({ ...DONE, usage })])
    expect(payloads.at(-1)).toMatchObject({ type: 'response_done', finish_reason: 'stop' })
    expect(payloads.filter((payload) => 'usage' in payload)).toEqual([])
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_complete', status: 'complete' })
    expect(turn).toMatchObject({ status: 'complete', sealed: true })
    expect(errors).toEqual(['UPSTREAM_MALFORMED'])
  },
)

test('V9 agentId of a submit is agent_id of response_start', async () => {
  const rig = newRig({ rounds: [[lenient(DONE)]] })
  await rig.submit({ agentId: 'planner' })
  await rig.settled()
  const [first] = await payloadsOf(rig.log)
  expect(first).toMatchObject({ type: 'response_start', agent_id: 'planner' })
  expect(await rig.log.getResponse('r')).toContain('"agent_id":"planner"')
})

test('V9 usage with prompt, completion and total is read', async () => {
  const usage = { prompt: 10, completion: 3, total: 13 }
  const { payloads, turn, errors } = await play([lenient({ ...DONE, usage })])
  const counted = { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 }
  expect(payloads.at(-1)).toMatchObject({ usage: counted })
  expect(turn?.usage).toEqual(counted)
  expect(errors).toEqual([])
})
