import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { caseCount } from '../../../../../test/case-count.ts'
import { checkPayloads, fixtureEvents, fixtureNames, outcomesOf } from '../outcome.ts'
import { calls, chunk, DONE, piece, stop, translate, usage } from './chunks.ts'

const word = fc.oneof(
  fc.string(),
  fc.constantFrom('\ud83d', '\ude00', '__proto__', '{"a":1}', '{', ''),
)
const index = fc.constantFrom<unknown>(0, 1, 2, -1, 0.5, 1e300, '0', null, undefined)
const odd = fc.oneof(fc.jsonValue(), fc.constantFrom<unknown>(undefined, null, {}, [], Number.NaN))
const id = fc.constantFrom<unknown>('a', 'b', '', null, undefined, 7)
const maybe = <T>(value: fc.Arbitrary<T>) => fc.oneof({ weight: 8, arbitrary: value }, odd)

const callPiece = fc.record(
  {
    index: maybe(index),
    id: maybe(id),
    type: fc.constantFrom('function', 'custom', ''),
    function: maybe(fc.record({ name: maybe(word), arguments: maybe(word) })),
    custom: fc.option(fc.record({ name: word, input: word }), { nil: undefined }),
    extra_content: odd,
  },
  { requiredKeys: [] },
)

const delta = fc.record(
  {
    role: maybe(fc.constantFrom('assistant', '')),
    content: maybe(fc.oneof(word, fc.array(fc.record({ type: word, text: word })))),
    reasoning_content: maybe(word),
    reasoning: maybe(word),
    reasoning_details: maybe(fc.array(fc.record({ type: word, text: word, index: fc.nat(1) }))),
    refusal: maybe(word),
    annotations: odd,
    tool_calls: maybe(fc.array(callPiece, { maxLength: 3 })),
    function_call: maybe(fc.record({ name: word, arguments: word })),
  },
  { requiredKeys: [] },
)

const event = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .tuple(delta, maybe(fc.constantFrom(null, 'stop', 'length', 'error')))
      .map(([each, finish]) => chunk(each, finish)),
  },
  {
    weight: 2,
    arbitrary: fc.record(
      {
        id: maybe(fc.constantFrom('c1', 'c2')),
        choices: maybe(fc.array(fc.record({ index, delta: maybe(delta), finish_reason: odd }))),
        usage: maybe(fc.record({ prompt_tokens: odd, completion_tokens: odd })),
        x_groq: odd,
        error: fc.option(odd, { nil: undefined }),
      },
      { requiredKeys: [] },
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom<unknown>(DONE, stop, usage(1, 1)) },
  { weight: 1, arbitrary: odd },
)

test('any input never throws, and every response ends once, well-formed', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 30 }), (events) => {
      checkPayloads(translate(events))
      checkPayloads(translate(events, { maxArgumentChars: 3 }))
    }),
    { numRuns: caseCount(500) },
  )
})

test('events of all fixtures in any order end correctly', () => {
  const pool = fixtureNames('openai-chat').flatMap((name) => fixtureEvents('openai-chat', name))
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pool), { maxLength: 30 }), (events) => {
      checkPayloads(translate(events))
    }),
    { numRuns: caseCount(500) },
  )
})

test('random cuts and interleavings of N calls reassemble exactly', () => {
  const argument = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 4 })
  const whole = fc.array(argument, { minLength: 1, maxLength: 5 })
  fc.assert(
    fc.property(whole, fc.infiniteStream(fc.nat()), (args, random) => {
      const next = (below: number) => (random.next().value as number) % below
      const texts = args.map((each) => JSON.stringify(each))
      const rest = [...texts]
      const chunks = texts.map((_, at) => calls(piece(at, `id${at}`, `f${at}`, '')))
      while (rest.some((each) => each !== '')) {
        const at = next(rest.length)
        const size = 1 + next(5)
        chunks.push(calls(piece(at, undefined, undefined, rest[at]?.slice(0, size))))
        rest[at] = rest[at]?.slice(size) ?? ''
      }
      const items = texts.map((text, at) => `call id${at} f${at} ${text}`)
      const end = 'complete tool_calls (stop)'
      expect(outcomesOf(translate([...chunks, stop]))).toEqual([{ items, end }])
    }),
  )
})
