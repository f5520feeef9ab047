import { expect, test } from 'vitest'
import {
  inputItemId,
  isGivenItem,
  isInputItem,
  isOutputItem,
  isPromptItem,
  outputItemId,
  outputItemIds,
  promptItemId,
  runOfWireId,
  wireItemId,
} from '../../src/protocol/item-ids.ts'

const RUN = 'run-1'
const rows = [
  { id: outputItemId(RUN, 3), is: 'run-1:3', wire: 'run-1_3' },
  { id: inputItemId(RUN, 2), is: 'run-1-input-2', wire: 'run-1-input-2' },
  { id: promptItemId(RUN, 1), is: 'run-1-user-prompt', wire: 'run-1-user-prompt' },
  { id: promptItemId(RUN, 2), is: 'run-1-user-prompt-2', wire: 'run-1-user-prompt-2' },
]

test.each(rows)('$is names its run and its place', ({ id, is, wire }) => {
  expect(id).toBe(is)
  expect(wireItemId(id)).toBe(wire)
  expect(runOfWireId(wire)).toBe(RUN)
})

test('an id tells output, input and prompt apart', () => {
  const kinds = [isOutputItem, isInputItem, isGivenItem].map((is) =>
    rows.filter(({ id }) => is(RUN, id)).map(({ is: id }) => id),
  )
  expect(kinds).toEqual([
    ['run-1:3'],
    ['run-1-input-2'],
    ['run-1-input-2', 'run-1-user-prompt', 'run-1-user-prompt-2'],
  ])
  expect(rows.filter(({ id }) => isPromptItem(id))).toHaveLength(2)
  expect(rows.some(({ id }) => isGivenItem('run', id))).toBe(false)
})

test('ids are numbered from a place', () => {
  const nextId = outputItemIds(RUN, 4)
  expect([nextId(), nextId()]).toEqual(['run-1:5', 'run-1:6'])
  expect(outputItemIds(RUN)()).toBe('run-1:1')
})
