import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { customInput } from '../../../src/formats/custom-tools.ts'
import { namedTools } from '../../../src/formats/responses/tool-names.ts'

const tool = (name: string) => ({ type: 'function', name })

test('tools keep their names if providers accept them', () => {
  expect(namedTools([tool('read_file')]).map(({ flatName }) => flatName)).toEqual(['read_file'])
})

test('names that would be the same stay distinct', () => {
  const space = { type: 'namespace', name: 'fs', tools: [tool('read')] }
  const names = namedTools([tool('a.b'), tool('a/b'), tool('fs__read'), space])
  expect(names.map(({ flatName }) => flatName)).toEqual(['a_b', 'a_b_2', 'fs__read', 'fs__read_2'])
})

test('every name is unique, valid, and found again', () => {
  const name = fc.string({ minLength: 1, maxLength: 80 })
  const tools = fc.array(
    fc.oneof(
      name.map(tool),
      name.map((each) => ({ type: 'custom', name: each })),
      fc.record({ name, inner: fc.array(name, { maxLength: 3 }) }).map((space) => ({
        type: 'namespace',
        name: space.name,
        tools: space.inner.map(tool),
      })),
    ),
    { maxLength: 8 },
  )
  fc.assert(
    fc.property(tools, (given) => {
      const named = namedTools(given)
      const flat = named.map(({ flatName }) => flatName)
      expect(new Set(flat).size).toBe(flat.length)
      for (const each of flat) expect(each).toMatch(/^[\w-]{1,64}$/)
      expect(namedTools(given)).toEqual(named)
    }),
  )
})

test.each([
  ['the same', () => 'x'],
  ['of one stem', (at: number) => `${'x'.repeat(58)}${String(at).padStart(6, '0')}`],
])('names that are taken cost a few steps each: %s', (_name, nameAt) => {
  const given = Array.from({ length: 1000 }, (_, at) => tool(nameAt(at >> 1)))
  const has = vi.spyOn(Set.prototype, 'has')
  const named = namedTools([{ type: 'namespace', name: 'n', tools: given }])
  const steps = has.mock.calls.length
  has.mockRestore()
  expect(new Set(named.map(({ flatName }) => flatName)).size).toBe(given.length)
  expect(steps).toBeLessThanOrEqual(3 * given.length)
})

test.each([
  ['tools that are no objects', [1, null, 'x']],
  ['tools without a name', [{ type: 'function' }, { type: 'custom', name: '' }]],
  ['a namespace without tools', [{ type: 'namespace', name: 'x' }]],
])('%s are left out', (_name, tools) => {
  expect(namedTools(tools)).toEqual([])
})

test('arguments of any other format are the input of a custom tool', () => {
  expect(customInput('plain')).toBe('plain')
  expect(customInput('{"input":1}')).toBe('{"input":1}')
})
