import { describe, expect, test } from 'vitest'
import type { ItemSnapshot, StreamOutput, ToolCall } from '../../../core/src/index.ts'
import { outputsOf } from '../../../turnstream/test/server/streams/turns.ts'
import { append, apply, EMPTY_VIEW, prepend, type View } from '../../src/index.ts'

function view(...outputs: StreamOutput[]): View {
  return outputs.reduce(apply, EMPTY_VIEW)
}

function started(turnId: string): StreamOutput {
  return { type: 'turn_started', turnId, threadId: 'h' }
}

function said(
  content: string,
  status: ItemSnapshot['status'] = 'update',
  more: Partial<ItemSnapshot> = {},
) {
  const base = { turnId: 't1', threadId: 'h', itemId: 'a', origin: 'agent' } as const
  return { type: 'message', ...base, content, status, ...more } as ItemSnapshot
}

function call(turnId: string, more: object = {}): ToolCall {
  const tool = { toolName: 'look', toolArguments: { at: 'x' }, callId: 'c1' }
  const base = { turnId, threadId: 'h', itemId: 'call', content: '', status: 'create' } as const
  return { type: 'tool_call', ...base, ...tool, ...more }
}

function answered(turnId: string): ToolCall {
  return call(turnId, { status: 'complete', toolOutput: 'found', success: true })
}

function item(of: View, at = 0): ItemSnapshot | undefined {
  return of.turns[at]?.items[0]
}

test('a view has the newest snapshot of each item in order of first appearance, and the end', () => {
  const outputs = outputsOf('t')
  const [turn] = view(...outputs).turns
  expect(turn?.items.map(({ itemId }) => itemId)).toEqual([
    ...['prompt', 'think', 'answer', 'call', 'late'],
  ])
  expect(turn?.items.map(({ status }) => status)).toEqual([
    ...['complete', 'complete', 'complete', 'complete', 'error'],
  ])
  expect(turn).toMatchObject({ turnId: 't', status: 'complete', started: outputs[0] })
  expect(turn?.end).toEqual(outputs.at(-1))
})

test.each([
  ['turn_complete with status aborted', { status: 'aborted' }, 'aborted'],
  ['turn_error', { type: 'turn_error', error: { code: 'X', message: 'x' } }, 'error'],
])('the status after %s', (_name, more, status) => {
  const end = { type: 'turn_complete', turnId: 't1', threadId: 'h', ...more } as StreamOutput
  expect(view(started('t1')).turns[0]?.status).toBe('running')
  expect(view(started('t1'), end).turns[0]).toMatchObject({ status, end })
})

describe('what did not change keeps its identity', () => {
  test('the other items, and the other turns', () => {
    const before = view(started('t0'), started('t1'), said('One', 'create'), call('t1'))
    const after = apply(before, said('One two'))
    expect(after.turns[0]).toBe(before.turns[0])
    expect(after.turns[1]?.items[1]).toBe(before.turns[1]?.items[1])
    expect(after.turns[1]?.items[0]).not.toBe(before.turns[1]?.items[0])
    expect(item(before, 1)?.content).toBe('One')
  })

  test('everything, when every output is applied again in any order', () => {
    const before = view(...outputsOf('t'))
    for (const output of outputsOf('t').toReversed()) expect(apply(before, output)).toBe(before)
  })
})

describe('an earlier state does not replace a later one', () => {
  test.each<[string, StreamOutput, StreamOutput]>([
    ['more text', said('One', 'create'), said('One two')],
    ['an update without text', said('One', 'create'), said('One')],
    ['a shorter final text', said('One two'), said('One', 'complete')],
    ['an error', said('One two'), said('One two', 'error', { errorCode: 'X' })],
    [
      'the reason of a text cut by the limit',
      said('One', 'complete'),
      said('One', 'complete', { finishReason: 'length' }),
    ],
    ['the output of a call', call('t1'), answered('t1')],
    [
      'more arguments',
      call('t1', { toolArgumentsText: '{"at', toolArguments: {} }),
      call('t1', { toolArgumentsText: '{"at":"x', toolArguments: {}, status: 'update' }),
    ],
    [
      'complete arguments',
      call('t1', { toolArgumentsText: '{"at":"x', toolArguments: {}, status: 'update' }),
      call('t1'),
    ],
    [
      'a request for approval',
      call('t1'),
      call('t1', { status: 'update', approval: { id: '1', status: 'requested' } }),
    ],
    [
      'an approval',
      call('t1', { status: 'update', approval: { id: '1', status: 'requested' } }),
      call('t1', { status: 'update', approval: { id: '1', status: 'declined' } }),
    ],
  ])('%s', (_name, early, late) => {
    expect(item(view(early, late))).toEqual(late)
    expect(item(view(late, early))).toEqual(late)
    expect(item(view(early, late, early))).toEqual(late)
  })

  test('nor does a second end replace the first', () => {
    const end = { type: 'turn_complete', turnId: 't1', threadId: 'h', status: 'complete' } as const
    const ended = view(started('t1'), end)
    expect(apply(ended, { ...end, status: 'aborted' })).toBe(ended)
  })
})

describe('V4 a call that a later turn completes', () => {
  const expected = { ...answered('t1') }

  test('keeps its first place', () => {
    const merged = view(started('t1'), call('t1'), said('One'), started('t2'), answered('t2'))
    expect(merged.turns[0]?.items).toEqual([expected, said('One')])
    expect(merged.turns[1]?.items).toEqual([])
    expect(apply(merged, answered('t2'))).toBe(merged)
    expect(apply(merged, call('t1'))).toBe(merged)
  })

  test('also when the turn that completes it is not known yet', () => {
    const merged = view(call('t1'), answered('t2'))
    expect(merged.turns.map(({ items }) => items)).toEqual([[expected], []])
  })

  test('moves to the turn that made it when that arrives later', () => {
    const merged = view(started('t1'), started('t2'), answered('t2'), call('t1'))
    expect(merged.turns.map(({ items }) => items)).toEqual([[expected], []])
  })

  test('is completed when its page is loaded later', () => {
    const newer = view(started('t2'), answered('t2'), said('Two', 'create', { turnId: 't2' }))
    const older = view(started('t1'), call('t1'))
    const merged = prepend(newer, older)
    const all = view(
      ...[started('t1'), call('t1'), started('t2'), answered('t2')],
      said('Two', 'create', { turnId: 't2' }),
    )
    expect(merged).toEqual(all)
  })

  test('texts are not merged: another turn may use the same item id', () => {
    const both = view(said('One', 'complete'), said('Two', 'complete', { turnId: 't2' }))
    expect(both.turns.map(({ items }) => items[0]?.content)).toEqual(['One', 'Two'])
  })
})

test('an earlier page goes before a view, whose turns keep their identity', () => {
  const newer = view(started('t2'), said('Two', 'create', { turnId: 't2' }))
  const merged = prepend(newer, view(started('t1'), said('One')))
  expect(merged.turns.map(({ turnId }) => turnId)).toEqual(['t1', 't2'])
  expect(merged.turns[1]).toBe(newer.turns[0])
  expect(prepend(EMPTY_VIEW, newer)).toBe(newer)
})

describe('an append', () => {
  const frame = { itemId: 'a', at: 3, text: ' two', length: 7, status: 'update' } as const

  test('extends its item', () => {
    const before = view(started('t0'), said('One', 'create'))
    const after = append(before, frame)
    expect(after && item(after, 1)).toEqual(said('One two'))
    expect(after?.turns[0]).toBe(before.turns[0])
  })

  test('that does not continue its item, or has none, is refused', () => {
    expect(append(view(said('One two')), frame)).toBeUndefined()
    expect(append(view(said('On')), frame)).toBeUndefined()
    expect(append(view(said('One')), { ...frame, length: 8 })).toBeUndefined()
    expect(append(EMPTY_VIEW, frame)).toBeUndefined()
  })

  test('extends the item of the newest turn when two turns use the same id', () => {
    const before = view(said('One', 'create'), said('Two', 'create', { turnId: 't2' }))
    const after = append(before, frame)
    expect(after && [item(after, 0)?.content, item(after, 1)?.content]).toEqual(['One', 'Two two'])
  })
})

describe('V14 a turn that replaces another', () => {
  const again = { ...started('t4'), replaces: 't2' } as StreamOutput
  const ids = ({ turns }: View) => turns.map(({ turnId }) => turnId)

  test('takes the place of it and of those after it', () => {
    const before = view(started('t1'), started('t2'), started('t3'))
    const after = apply(before, again)
    expect(ids(after)).toEqual(['t1', 't4'])
    expect(after.turns[0]).toBe(before.turns[0])
    expect(apply(after, again)).toBe(after)
  })

  test('changes nothing in a view without them', () => {
    expect(ids(view(started('t1'), again))).toEqual(['t1', 't4'])
  })

  test('takes the place of turns on an earlier page', () => {
    expect(ids(prepend(view(again), view(started('t1'), started('t2'))))).toEqual(['t1', 't4'])
  })
})
