import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PartialArgs } from '../../../src/formats/gemini/read-calls.ts'

type Value = string | number | boolean | null

function assemble(...pieces: [path: string, value: Value][]): string {
  const args = new PartialArgs()
  for (const [path, value] of pieces) expect(args.add({ path, value }), path).toBe(true)
  return args.toString()
}

describe('values are set at their paths', () => {
  const rows: [pieces: [string, Value][], expected: string][] = [
    [[], '{}'],
    [[['$.a', 1]], '{"a":1}'],
    [
      [
        ['$.a', 'x'],
        ['$.a', 'y'],
      ],
      '{"a":"xy"}',
    ],
    [
      [
        ['$.a', 'x'],
        ['$.a', 1],
      ],
      '{"a":1}',
    ],
    [
      [
        ['$.a.b', true],
        ['$.a.c', null],
      ],
      '{"a":{"b":true,"c":null}}',
    ],
    [
      [
        ['$.a[0]', 1],
        ['$.a[1].b', 2],
        ['$.a[1].c', 3],
      ],
      '{"a":[1,{"b":2,"c":3}]}',
    ],
    [[['$.a[0][0]', 1]], '{"a":[[1]]}'],
    [
      [
        ["$['a b']", 1],
        ['$["c.d"]', 2],
        ["$['it\\'s']", 3],
      ],
      '{"a b":1,"c.d":2,"it\'s":3}',
    ],
    [[['$.__proto__.x', 1]], '{"__proto__":{"x":1}}'],
    [
      [
        ['$.a', 1],
        ['$.a.b', 2],
      ],
      '{"a":{"b":2}}',
    ],
    [[['.a', 1]], '{"a":1}'],
  ]

  test.each(rows)('%j', (pieces, expected) => {
    expect(assemble(...pieces)).toBe(expected)
  })
})

test.each([
  '',
  '$',
  '$.',
  '$..a',
  '$.a[',
  '$.a[x]',
  '$[7]',
  '$.a[1]',
  '$.a[999999999]',
  '$a',
  '$.a]',
])('the path %j is ignored', (path) => {
  expect(new PartialArgs().add({ path, value: 1 })).toBe(false)
})

test('a deep path cannot escape', () => {
  const deep = `$${'.a'.repeat(10_000)}`
  expect(new PartialArgs().add({ path: deep, value: 1 })).toBe(false)
  expect(new PartialArgs().add({ path: `$${'.a'.repeat(64)}`, value: 1 })).toBe(true)
})

test('complete values from before stay', () => {
  const args = new PartialArgs({ a: 1, b: 2 })
  args.add({ path: '$.b', value: 3 })
  expect(args.toString()).toBe('{"a":1,"b":3}')
})

test('arguments sent value by value, with text in pieces, are assembled exactly', () => {
  const name = fc.stringMatching(/^[a-z_][a-z0-9_]{0,5}$/)
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.string({ minLength: 1 }),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie('value'), { minLength: 1, maxLength: 3 }),
      fc.dictionary(name, tie('value'), { minKeys: 1, maxKeys: 3 }),
    ),
  }))
  fc.assert(
    fc.property(fc.dictionary(name, value, { maxKeys: 4 }), (whole) => {
      const args = new PartialArgs()
      const send = (path: string, node: unknown): void => {
        if (Array.isArray(node))
          for (const [at, each] of node.entries()) send(`${path}[${at}]`, each)
        else if (typeof node === 'object' && node !== null) {
          for (const [key, each] of Object.entries(node)) send(`${path}.${key}`, each)
        } else if (typeof node === 'string') {
          for (const piece of node.split('')) expect(args.add({ path, value: piece })).toBe(true)
        } else expect(args.add({ path, value: node as Value })).toBe(true)
      }
      send('$', whole)
      expect(JSON.parse(args.toString())).toEqual(JSON.parse(JSON.stringify(whole)))
    }),
  )
})
