/** What must hold of every turn, whatever happened to it. */
import { expect } from 'vitest'
import type { StreamOutput } from '../../src/protocol/stream-output.ts'
import { TURN_ID } from '../processor/events.ts'
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
  checkGrowth(processed)
  expect(await log.getTurn(TURN_ID)).toMatchObject({ sealed: true })
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
    const { type, itemId, status, content } = JSON.parse(text) as Record<string, string>
    if (type === 'turn_started') expect(index).toBe(0)
    if (itemId === undefined || content === undefined || status === undefined) continue
    const before = latest.get(itemId)
    if (status === 'create') expect(before).toBeUndefined()
    if (status === 'update') expect(before).toBeDefined()
    if (before !== undefined) {
      expect(before.status).not.toBe('complete')
      if (status !== 'complete') expect(content.startsWith(before.content)).toBe(true)
    }
    latest.set(itemId, { status, content })
  }
}
