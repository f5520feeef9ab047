import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { caseCount } from '../../../../../test/case-count.ts'
import { NOTIFICATION_ROUTES } from '../../../src/formats/response-notifications/decode.ts'
import { faultOf } from '../responses/events.ts'
import { translate } from './notifications.ts'

const odd = fc.oneof(
  fc.string(),
  fc.constantFrom<unknown>('\ud83d', '__proto__', 0, 1, -1, 0.5, 1e300, NaN, null, [], {}),
)
const id = fc.oneof({ weight: 4, arbitrary: fc.constantFrom<unknown>('a', 'b', undefined) }, odd)
const index = fc.oneof({ weight: 4, arbitrary: fc.constantFrom<unknown>(0, 1, undefined) }, odd)
const item = fc.record(
  {
    type: fc.constantFrom('message', 'reasoning', 'function_call', 'x', '__proto__'),
    id,
    call_id: id,
    name: odd,
    arguments: odd,
    function: fc.record({ name: odd, arguments: odd }),
    content: fc.oneof(odd, fc.array(fc.record({ type: odd, text: odd }))),
  },
  { requiredKeys: ['type'] },
)
const notification = fc.record(
  {
    type: fc.constantFrom(...NOTIFICATION_ROUTES.keys(), 'response.new'),
    item: fc.oneof({ weight: 6, arbitrary: item }, odd),
    output_item: item,
    outputItem: item,
    output_index: index,
    item_id: id,
    call_id: id,
    id,
    delta: fc.oneof({ weight: 6, arbitrary: fc.string() }, odd),
    arguments_delta: odd,
    text: odd,
    part: fc.record({ type: fc.constantFrom('output_text', 'summary_text', 'x'), text: odd }),
    response: fc.record(
      { status: odd, output: fc.array(item, { maxLength: 2 }), model: odd },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: ['type', 'delta'] },
)
const anything = fc.oneof(
  { weight: 9, arbitrary: notification },
  { weight: 1, arbitrary: fc.anything() },
)

test('any notifications in any order give well-formed responses', () => {
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 40 }), (events) => {
      expect(faultOf(translate(events, { maxArgumentChars: 20 }))).toBeUndefined()
    }),
    { numRuns: caseCount(1500) },
  )
})
