/** What must hold of every turn, whatever happened to it. */

import { expect } from 'vitest'
import {
  isExecutedByProvider,
  isStreamEvent,
  type OutputItem,
  parseJsonSafe,
  ResponseReducer,
  type StreamEvent,
  type StreamOutput,
} from '../../../core/src/index.ts'
import { TURN_ID } from '../../../core/test/processor/events.ts'
import { withTurnIds } from '../../src/turns/turn-response.ts'
import { lastOutputs } from './recording.ts'
import type { WildLog } from './wild-log.ts'

const TERMINALS = new Set([
  'response_done',
  'response_error',
  'turn_aborted_by_user',
  'turn_complete',
  'turn_error',
])

export function terminalsIn(texts: readonly string[]): string[] {
  const types = texts.map((text) => (JSON.parse(text) as { type: string }).type)
  return types.filter((type) => TERMINALS.has(type))
}

/** Whether an item was created or updated last depends on when it was shown. */
export function settled(output: StreamOutput): StreamOutput {
  const isOpen = 'itemId' in output && ['create', 'update'].includes(output.status)
  return isOpen ? { ...output, status: 'update' } : output
}

/** Both logs of a turn that was written to its end, by its owner or by whoever claimed it. */
export async function checkWhole(log: WildLog): Promise<void> {
  const { events, processed } = log.kept
  for (const texts of [events, processed]) {
    expect(terminalsIn(texts)).toHaveLength(1)
    expect(terminalsIn(texts.slice(-1))).toHaveLength(1)
  }
  expect(log.seals).toEqual({ events: 1, processed: 1 })
  const shown = new Map<string, StreamOutput>()
  for (const text of processed) {
    const output = JSON.parse(text) as StreamOutput
    shown.set('itemId' in output ? output.itemId : output.type, settled(output))
  }
  const expected = new Map<string, StreamOutput>()
  for (const [key, last] of await lastOutputs(events)) {
    if (shown.has(key) || !isUnseen(last)) expected.set(key, settled(last))
  }
  expect(shown).toEqual(expected)
  checkSettled(events)
  checkSnapshotSettled([...shown.values()].map((output) => JSON.stringify(output)))
  checkGrowth(processed)
  expect(await log.getTurn(TURN_ID)).toMatchObject({ sealed: true })
  await checkResponse(log)
}

/** The stored Response is what the events come to. */
async function checkResponse(log: WildLog): Promise<void> {
  const stored = await log.getResponse(TURN_ID)
  const reducer = new ResponseReducer()
  for (const text of log.kept.events) {
    const event = parseJsonSafe(text)
    if (isStreamEvent(event)) reducer.apply(event)
  }
  const turn = await log.getTurn(TURN_ID)
  if (turn === undefined) throw new Error('there is no turn')
  const expected = withTurnIds(reducer.response, turn)
  expect(parseJsonSafe(stored ?? '')).toEqual(parseJsonSafe(JSON.stringify(expected)))
}

/** V6: every item of `events` has exactly one end, before that of the turn, or is a call for the client. */
export function checkSettled(events: readonly string[]): void {
  const open = new Set<string>()
  const ended = new Set<string>()
  const calls = new Map<string, string>()
  for (const text of events) {
    const { payload } = JSON.parse(text) as StreamEvent
    switch (payload.type) {
      case 'item_start':
        expect(open.has(payload.item_id) || ended.has(payload.item_id), text).toBe(false)
        open.add(payload.item_id)
        break
      case 'item_delta':
        expect(open, text).toContain(payload.item_id)
        break
      case 'item_done':
        expect(ended, text).not.toContain(payload.item_id)
        open.delete(payload.item_id)
        ended.add(payload.item_id)
        noteCall(calls, payload.item_id, payload.final_item)
        break
      case 'item_error':
      case 'item_cancelled':
        // A finished call fails when it gets no output.
        if (!calls.delete(payload.item_id)) expect(ended, text).not.toContain(payload.item_id)
        open.delete(payload.item_id)
        ended.add(payload.item_id)
        break
      default:
    }
  }
  expect([...open]).toEqual([])
  expect([...calls.keys()]).toEqual([])
}

/** `calls`: those that the client need not answer and that have no output, by item. */
function noteCall(calls: Map<string, string>, itemId: string, item: OutputItem): void {
  if (item.type === 'function_call' && isExecutedByProvider(item.provider_metadata)) {
    calls.set(itemId, item.call_id)
  }
  if (item.type !== 'function_call_output') return
  const [answered] = [...calls].find(([, id]) => id === item.call_id) ?? []
  if (answered !== undefined) calls.delete(answered)
}

/** Only calls that are left to the client are still open. */
export function checkSnapshotSettled(outputs: readonly string[]): void {
  for (const text of outputs) {
    const output = JSON.parse(text) as StreamOutput
    if (!('itemId' in output) || output.type === 'tool_call') continue
    expect(['complete', 'error'], text).toContain(output.status)
  }
}

/** A text that was cancelled before anybody saw it is never shown. */
function isUnseen(output: StreamOutput): boolean {
  return (
    output.type !== 'tool_call' && 'errorCode' in output && output.errorCode === 'ITEM_CANCELLED'
  )
}

/** What a reader has seen who was there all the time. */
function checkGrowth(shown: readonly string[]): void {
  const latest = new Map<string, { status: string; content: string }>()
  for (const [index, text] of shown.entries()) {
    const output = JSON.parse(text) as Record<string, string>
    const { type, itemId, status, content } = output
    if (type === 'turn_started') expect(index).toBe(0)
    if (itemId === undefined || content === undefined || status === undefined) continue
    const before = latest.get(itemId)
    if (status === 'create') expect(before).toBeUndefined()
    if (status === 'update') expect(before).toBeDefined()
    if (before !== undefined) {
      // A text that was cut is complete again, and says so.
      if (before.status === 'complete') {
        expect([output['finishReason'], content]).toEqual(['length', before.content])
      }
      if (status !== 'complete') expect(content.startsWith(before.content)).toBe(true)
    }
    latest.set(itemId, { status, content })
  }
}
