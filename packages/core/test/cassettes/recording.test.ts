import { describe, expect, test } from 'vitest'
import { createScriptedProvider } from '../../../turnstream/src/index.ts'
import {
  type Cassette,
  type CassetteCall,
  cassetteRecording,
  type StreamEventPayload,
} from '../../src/index.ts'
import { cassetteOf, recordedCall, toolsEvents } from './samples.ts'

async function play(cassette: Cassette, round?: number): Promise<StreamEventPayload[]> {
  const recordings = { bug: cassetteRecording(cassette) }
  const provider = createScriptedProvider({ recordings, speed: Infinity })
  const run = { runId: 'run', turnId: 'turn', threadId: 'thread', ...(round && { round }) }
  return provider.stream({ model: 'bug', input: [] }, run).toArray()
}

const refused: CassetteCall = {
  ...recordedCall('chat'),
  response: { at: 1, status: 429, headers: {} },
  chunks: [{ at: 2, bytes: new TextEncoder().encode('{"error":{"message":"slow down"}}') }],
}

describe('recorded calls', () => {
  test('are played one per round, without those that were refused', async () => {
    const calls = [refused, { ...recordedCall('chat'), number: 2 }, recordedCall('anthropic', 3)]
    const cassette = cassetteOf({ calls })
    const first = await play(cassette)
    const second = await play(cassette, 2)
    expect(first.at(-1)?.type).toBe('response_done')
    expect(second.at(-1)?.type).toBe('response_done')
    expect(first[0]).toMatchObject({ response_id: 'run', turn_id: 'turn', thread_id: 'thread' })
    expect(JSON.stringify(first)).not.toBe(JSON.stringify(second))
    expect((await play(cassette, 3)).at(-1)).toMatchObject({
      type: 'response_error',
      error: { code: 'UPSTREAM_TRUNCATED' },
    })
  })

  test('that were all refused fail as the last one did', async () => {
    const payloads = await play(cassetteOf({ calls: [refused] }))
    expect(payloads.at(-1)).toMatchObject({ error: { code: 'HTTP_429', message: 'slow down' } })
  })
})

describe('a recorded turn', () => {
  const events = toolsEvents()

  test('is played without its input, and its tools are not run again', async () => {
    const payloads = await play(cassetteOf({ events }))
    expect(JSON.stringify(payloads)).not.toContain('which train should I take')
    const done = payloads.flatMap((each) => (each.type === 'item_done' ? [each.final_item] : []))
    const calls = done.filter(({ type }) => type === 'function_call')
    expect(calls).toHaveLength(3)
    for (const call of calls)
      expect(call.provider_metadata).toMatchObject({ executed_by: 'provider' })
    expect(payloads.at(-1)?.type).toBe('response_done')
  })

  test('leaves out input items and approvals, and keeps calls for the client', async () => {
    const [start, ...rest] = events
    const envelope = start!.event
    const done = (final_item: Record<string, unknown>) => ({
      at: 0,
      event: {
        ...envelope,
        type: 'item_done',
        payload: { type: 'item_done', item_id: final_item['id'], final_item },
      } as never,
    })
    const fn = { type: 'function_call', name: 'f', arguments: '{}' }
    const approval = { id: 'approval-1', status: 'requested' }
    const out = { type: 'function_call_output', output: 'ok', success: true }
    const added = [
      done({ ...out, id: 'recorded-turn-input-1', call_id: 'old' }),
      done({ ...fn, id: 'a', call_id: 'server', approval }),
      done({ type: 'approval_request', id: 'q', approval_id: 'approval-1', call_id: 'server' }),
      done({
        type: 'approval_response',
        id: 'b',
        approval_id: 'approval-1',
        call_id: 'server',
        approved: true,
        answered_at: 1,
      }),
      done({ ...out, id: 'c', call_id: 'server' }),
      done({ ...fn, id: 'd', call_id: 'client' }),
    ]
    const played = await play(cassetteOf({ events: [start!, ...added, ...rest] }))
    const items = played.flatMap((each) => (each.type === 'item_done' ? [each.final_item] : []))
    const first = items.slice(0, 3)
    expect(first).toMatchObject([
      { type: 'function_call', provider_metadata: { executed_by: 'provider' } },
      { type: 'function_call_output', provider_metadata: { executed_by: 'provider' } },
      { type: 'function_call', call_id: 'client' },
    ])
    expect(first[0]).not.toHaveProperty('approval')
    expect(first[2]).not.toHaveProperty('provider_metadata')
  })
})
