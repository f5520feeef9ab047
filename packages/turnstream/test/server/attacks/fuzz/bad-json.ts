/** Bodies that are JSON, nearly JSON, or no JSON in a way that has hurt somebody. */
import type { Dice } from './dice.ts'

const NUMBERS = [
  '1e999',
  '-1e999',
  '-0',
  '1e-999',
  '0.1e+',
  '01',
  '+1',
  '.5',
  '0x10',
  'NaN',
  'Infinity',
]
const HUGE = ['9007199254740993', `1${'0'.repeat(400)}`, `0.${'3'.repeat(5000)}`]
const STRINGS = [
  ...[
    String.raw`"\ud800"`,
    String.raw`"\udfff\ud800"`,
    String.raw`"\u0000"`,
    String.raw`"\x41"`,
    '"\n"',
  ],
  ...[
    String.raw`"\u202e"`,
    '"\u2028"',
    `"${'x'.repeat(20_000)}"`,
    '"',
    "'a'",
    String.raw`"\"`,
    '""',
  ],
]
const VALUES = [
  'null',
  'true',
  '[]',
  '{}',
  '[[]]',
  '[null]',
  '{"a":{}}',
  'undefined',
  'new Date()',
  ',',
]
const KEYS = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  '',
  '0',
  '\\u0000',
]

/** Every name that some route takes. */
const FIELDS = [
  ...[
    'prompt',
    'input',
    'model',
    'providerId',
    'threadId',
    'turnId',
    'runId',
    'tools',
    'toolChoice',
  ],
  ...['reasoningEffort', 'thinkingBudget', 'maxOutputTokens', 'temperature', 'topP', 'stop'],
  ...[
    'responseFormat',
    'parallelToolCalls',
    'title',
    'metadata',
    'reason',
    'type',
    'origin',
    'content',
  ],
]

function scalar(dice: Dice): string {
  return dice.pick([dice.pick(NUMBERS), dice.pick(HUGE), dice.pick(STRINGS), dice.pick(VALUES)])
}

function value(dice: Dice, depth: number): string {
  const kind = depth > 3 ? 9 : dice.below(10)
  if (kind === 0) return `[${dice.times(dice.below(4), () => value(dice, depth + 1)).join(',')}]`
  if (kind < 4) return object(dice, depth + 1)
  if (kind < 6) return JSON.stringify(dice.text(dice.below(30)))
  return scalar(dice)
}

function object(dice: Dice, depth: number): string {
  const fields = dice.times(dice.below(5), () => {
    const name = dice.oneIn(4) ? dice.pick(KEYS) : dice.pick(FIELDS)
    return `"${name}":${value(dice, depth)}`
  })
  return `{${fields.join(dice.oneIn(20) ? ';' : ',')}${dice.oneIn(20) ? ',' : ''}}`
}

const WHOLE: readonly ((dice: Dice) => string | Buffer)[] = [
  (dice) => object(dice, 0),
  (dice) => `{"prompt":"Hi",${object(dice, 0).slice(1)}`,
  (dice) => `{"input":[${object(dice, 0)}]}`,
  (dice) => `{"prompt":"Hi","tools":[{"name":"n","parameters":${object(dice, 0)}}]}`,
  (dice) => `{"metadata":${object(dice, 0)}}`,
  scalar,
  (dice) => '['.repeat(dice.between(400, 20_000)),
  (dice) => `{"metadata":${'{"a":'.repeat(dice.between(400, 3000))}`,
  (dice) => `{"input":[${'{},'.repeat(dice.between(500, 3000))}{}]}`,
  (dice) => JSON.stringify({ prompt: dice.text(dice.between(1, 300)), threadId: dice.text(5) }),
  (dice) => Buffer.concat([Buffer.from('{"prompt":"'), dice.bytes(20), Buffer.from('"}')]),
  (dice) => Buffer.from(object(dice, 0), 'utf16le'),
  (dice) => `\ufeff${object(dice, 0)}`,
  (dice) => object(dice, 0).slice(0, -1),
  (dice) => `${object(dice, 0)}${object(dice, 0)}`,
]

export function badJson(dice: Dice): Buffer {
  return Buffer.from(dice.pick(WHOLE)(dice))
}
