import { expect, test } from 'vitest'
import type { HistoryItem, TurnInput } from '../../../core/src/formats/submission.ts'
import { threadTitle } from '../../src/turns/thread-title.ts'

const say = (content: string, origin: 'user' | 'system' = 'user'): TurnInput => {
  return { type: 'message', origin, content }
}
const answer: HistoryItem = { type: 'message', origin: 'agent', content: 'An answer' }
const output: TurnInput = {
  type: 'function_call_output',
  call_id: 'c',
  output: 'An output',
  success: true,
}

const ROWS: [name: string, items: TurnInput[], title: string | undefined][] = [
  ['the first line', [say('Hello\nthere')], 'Hello'],
  ['after empty lines', [say(' \r\n\tHello ')], 'Hello'],
  ['80 characters', [say('😀'.repeat(80))], '😀'.repeat(80)],
  ['more than 80 characters', [say('😀'.repeat(81))], `${'😀'.repeat(79)}…`],
  ['control characters', [say('a\u0000b\u0085')], 'a b'],
  ['not the instructions', [say('Be brief', 'system'), say('Hello')], 'Hello'],
  ['not the context of an agent', [say('<environment>\n…'), say('Hello')], 'Hello'],
  ['no text', [say('  \n')], undefined],
  ['no text at the start', [say(`${' '.repeat(1000)}Hello`)], undefined],
  ['no message', [output], undefined],
]

test.each(ROWS)('the title of a thread is %s', (_name, input, title) => {
  expect(threadTitle({ input })).toBe(title)
})

test('the title is of the first message that the user sent', () => {
  const history = [say('First'), answer, say('Second'), answer]
  expect(threadTitle({ history, input: [say('Third')] })).toBe('First')
})

test('a turn whose content is deleted gives no title', () => {
  expect(threadTitle({ input: [say('Secret')], contentMs: 1000 })).toBeUndefined()
})
