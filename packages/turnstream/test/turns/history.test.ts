/** A client that keeps the thread itself tells what was said before. */
import { describe, expect, test } from 'vitest'
import type { HistoryItem, Submission, TurnInput } from '../../../core/src/formats/submission.ts'
import { isForProcessor } from '../../../core/src/items/marks.ts'
import { inputEvents, inputItems } from '../../src/turns/turn-request.ts'
import { bodyPieces } from '../../src/turns/turn-runner.ts'

const HISTORY: HistoryItem[] = [
  { type: 'message', origin: 'user', content: 'One' },
  { type: 'message', origin: 'agent', content: 'Two' },
  { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
]
const attachments = [{ type: 'image' as const, media_type: 'image/png', data: 'AAAA' }]
const INPUT: TurnInput[] = [
  { type: 'function_call_output', call_id: 'c', output: 'ok', success: true },
  { type: 'message', origin: 'user', content: 'Three', attachments },
]

describe('what was said before', () => {
  const items = inputItems('run', HISTORY, INPUT)

  test('precedes the new input, and each item has its own id', () => {
    expect(items.map(({ id }) => id)).toEqual([
      'run-input-1',
      'run-input-2',
      'run-input-3',
      'run-input-4',
      'run-user-prompt',
    ])
    expect(items.at(-1)).toMatchObject({ content: 'Three', attachments })
  })

  test('is started and ended like every item, and only the prompt is emitted', () => {
    const payloads = [...inputEvents(items, new Map())]
    expect(payloads).toHaveLength(10)
    const envelope = { event_id: 'e', timestamp: 1, trace_context: { traceparent: '' } }
    const shown = payloads.filter((payload) =>
      isForProcessor({ ...envelope, run_id: 'run', type: payload.type, payload } as never),
    )
    expect(shown.map((payload) => 'item_id' in payload && payload.item_id)).toEqual([
      'run-user-prompt',
      'run-user-prompt',
    ])
  })

  test('is part of the fingerprint', () => {
    const textOf = (submission: Submission) => [...bodyPieces(submission)].join('')
    const one = textOf({ input: INPUT, history: HISTORY })
    expect(textOf({ input: INPUT, history: [...HISTORY] })).toBe(one)
    expect(textOf({ input: INPUT, history: HISTORY.slice(1) })).not.toBe(one)
    expect(textOf({ input: INPUT })).not.toBe(one)
  })
})
