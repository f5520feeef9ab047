import * as fc from 'fast-check'
import { test } from 'vitest'
import { caseCount } from '../../../../../test/case-count.ts'
import { checkPayloads, fixtureEvents, fixtureNames } from '../outcome.ts'
import { translate } from './events.ts'

const word = fc.oneof(fc.string(), fc.constantFrom('\ud83d', '\ude00', '__proto__', '{"a":1}', ''))
const odd = fc.oneof(fc.jsonValue(), fc.constantFrom<unknown>(undefined, null, {}, [], Number.NaN))
const maybe = <T>(value: fc.Arbitrary<T>) => fc.oneof({ weight: 12, arbitrary: value }, odd)
const path = fc.constantFrom('$.a', '$.b[0]', '$.b[1].c', '$.a.b', '$.__proto__', '$[', '')

const functionCall = fc.record(
  {
    id: maybe(word),
    name: maybe(word),
    args: maybe(fc.dictionary(word, fc.jsonValue())),
    partialArgs: maybe(fc.array(fc.record({ jsonPath: path, stringValue: odd }))),
    willContinue: maybe(fc.boolean()),
  },
  { requiredKeys: [] },
)
const part = fc.record(
  {
    text: maybe(word),
    thought: maybe(fc.boolean()),
    thoughtSignature: maybe(word),
    functionCall: maybe(functionCall),
    executableCode: odd,
    codeExecutionResult: odd,
    inlineData: odd,
  },
  { requiredKeys: [] },
)
const candidate = fc.record(
  {
    index: fc.constantFrom<unknown>(0, 1, -1, null, undefined),
    content: maybe(fc.record({ parts: maybe(fc.array(maybe(part), { maxLength: 4 })) })),
    finishReason: fc.constantFrom<unknown>(undefined, undefined, undefined, 'STOP', 'SAFETY', 7),
    groundingMetadata: odd,
  },
  { requiredKeys: [] },
)
const event = fc.record(
  {
    candidates: maybe(fc.array(maybe(candidate), { maxLength: 2 })),
    responseId: fc.constantFrom<unknown>('r1', 'r1', 'r2', '', 7, undefined),
    usageMetadata: odd,
    promptFeedback: odd,
    error: fc.option(odd, { nil: undefined, freq: 20 }),
  },
  { requiredKeys: [] },
)

test('any input never throws, and every response ends once, well-formed', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof({ weight: 12, arbitrary: event }, odd)), (events) => {
      checkPayloads(translate(events))
      checkPayloads(translate(events, { maxArgumentChars: 3 }))
    }),
    { numRuns: caseCount(500) },
  )
})

test('events of all fixtures in any order end correctly', () => {
  const pool = fixtureNames('gemini').flatMap((name) => fixtureEvents('gemini', name))
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pool), { maxLength: 20 }), (events) => {
      checkPayloads(translate(events))
    }),
    { numRuns: caseCount(500) },
  )
})
