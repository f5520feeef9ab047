import { describe, expect, test } from 'vitest'
import { outcomesOf } from '../outcome.ts'
import { calls, chunk, piece, role, stop, text, translate } from './chunks.ts'

/** The calls of one response that ends with `stop`, whatever it is made of. */
function callsOf(...chunks: unknown[]): string[] {
  const [outcome, ...others] = outcomesOf(translate([role, ...chunks, stop]))
  expect(others).toEqual([])
  expect(outcome?.end).toBe('complete tool_calls (stop)')
  return outcome?.items ?? []
}

describe('a call fragment', () => {
  const rows: [name: string, pieces: unknown[], expected: string[]][] = [
    [
      'with an empty id goes by its index',
      [piece(0, 'a', 'f', ''), piece(0, '', undefined, '{}')],
      ['call a f {}'],
    ],
    [
      'brings the id that its call did not have yet',
      [piece(0, undefined, 'f', '{"n"'), piece(0, 'a', undefined, ':1}')],
      ['call a f {"n":1}'],
    ],
    [
      'with another name on the same index is another call, also without an id',
      [piece(0, undefined, 'f', '{}'), piece(0, undefined, 'g', '{}')],
      ['call call_run_1 f {}', 'call call_run_2 g {}'],
    ],
    [
      'with the same name on the same index is another call when the first one is whole',
      [piece(0, undefined, 'f', '{"n":1}'), piece(0, undefined, 'f', '{"n":2}')],
      ['call call_run_1 f {"n":1}', 'call call_run_2 f {"n":2}'],
    ],
    [
      'with the same name on the same index goes on when the first one is not whole',
      [piece(0, undefined, 'f', '{"n":'), piece(0, undefined, 'f', '{}}')],
      ['call call_run_1 f {"n":{}}'],
    ],
    [
      'with a name and neither id nor index names the last call, if that has no name',
      [piece(undefined, 'a', undefined, '{'), piece(undefined, undefined, 'f', '}')],
      ['call a f {}'],
    ],
    [
      'with a name on an index that was never opened is a new call',
      [piece(0, 'a', 'f', '{}'), piece(3, undefined, 'g', '{}')],
      ['call a f {}', 'call call_run_1 g {}'],
    ],
    [
      'without anything before it begins a call without a name',
      [piece(undefined, undefined, undefined, '{}')],
      ['call call_run_1  {}'],
    ],
    [
      'with a new id, no name and no arguments begins a call',
      [piece(0, 'a', 'f', '{}'), piece(0, 'b'), piece(0, undefined, 'g', '{"n":2}')],
      ['call a f {}', 'call b g {"n":2}'],
    ],
    [
      'on a negative, a huge or a fractional index goes by that index',
      [
        piece(-1, 'a', 'f', '{'),
        piece(1e300, 'b', 'g', '{'),
        piece(0.5, 'c', 'h', '{'),
        piece(-1, undefined, undefined, '}'),
        piece(1e300, undefined, undefined, '}'),
        piece(0.5, undefined, undefined, '}'),
      ],
      ['call a f {}', 'call b g {}', 'call c h {}'],
    ],
    [
      'with the id of another call on an index of its own is another call',
      [
        piece(0, 'a', 'f', ''),
        piece(1, 'a', 'f', ''),
        piece(0, 'a', undefined, '{"n":'),
        piece(1, 'a', undefined, '{"n":'),
        piece(0, undefined, undefined, '1}'),
        piece(1, undefined, undefined, '2}'),
      ],
      ['call a f {"n":1}', 'call call_run_1 f {"n":2}'],
    ],
    [
      'with the id of whole calls on an index of its own is another call',
      [piece(0, 'a', 'f', '{"n":1}'), piece(1, 'a', 'g', '{}'), piece(2, 'a', 'f', '{"n":2}')],
      ['call a f {"n":1}', 'call call_run_1 g {}', 'call call_run_2 f {"n":2}'],
    ],
    [
      'with the id of a whole call and no index is another call',
      [
        piece(undefined, 'a', 'f', '{"n":1}'),
        piece(undefined, 'a', 'f', '{"n":2}'),
        piece(undefined, 'a', 'g', '{}'),
      ],
      ['call a f {"n":1}', 'call call_run_1 f {"n":2}', 'call call_run_2 g {}'],
    ],
    [
      'with an id and no index continues its call until that is whole, also with its name',
      [
        piece(undefined, 'a', 'f', ''),
        piece(undefined, 'a', 'f', '{"n":'),
        piece(undefined, 'a', 'f', '{}'),
        piece(undefined, 'a', 'f', '}'),
      ],
      ['call a f {"n":{}}'],
    ],
    [
      'with the id of the only call and a shifted index continues it, also with its name',
      [piece(0, 'a', 'f', '{"n"'), piece(1, 'a', 'f', ':1}')],
      ['call a f {"n":1}'],
    ],
    [
      'whose id is __proto__ is like any other',
      [piece(0, '__proto__', 'f', '{'), piece(7, '__proto__', undefined, '}')],
      ['call __proto__ f {}'],
    ],
    [
      'with arguments of null or an empty object adds nothing',
      [
        piece(0, 'a', 'f', null),
        piece(0, undefined, undefined, {}),
        piece(0, 'a', undefined, '[1]'),
      ],
      ['call a f [1]'],
    ],
  ]

  test.each(rows)('%s', (_, pieces, expected) => {
    const oneByOne = pieces.map((each) => calls(each))
    expect(callsOf(...oneByOne)).toEqual(expected)
    expect(callsOf(calls(...pieces))).toEqual(expected)
  })
})

test('a legacy call continues beside other content', () => {
  const first = chunk({ content: 'Hm.', function_call: { name: 'f', arguments: '{' } })
  expect(callsOf(first, chunk({ function_call: { arguments: '}' } }))).toEqual([
    'message Hm.',
    'call call_run_1 f {}',
  ])
})

test('text between the fragments of a call does not end it', () => {
  const items = callsOf(
    calls(piece(0, 'a', 'f', '{"n"')),
    text('Well'),
    calls(piece(0, undefined, undefined, ':1}')),
  )
  expect(items).toEqual(['call a f {"n":1}', 'message Well'])
})

test('generated ids differ between responses', () => {
  const call = calls(piece(0, undefined, 'f', '{}'))
  const outcomes = outcomesOf(translate([call, stop, '[DONE]', call, stop, '[DONE]']))
  expect(outcomes.map(({ items }) => items)).toEqual([
    ['call call_run_1 f {}'],
    ['call call_run_2 f {}'],
  ])
})
