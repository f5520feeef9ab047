import { expect, test } from 'vitest'
import { allowedTools, ToolIndex } from '../../src/formats/request-tools.ts'

const TOOLS = [
  { name: 'a', namespace: 'x' },
  { name: 'a' },
  { name: 'b', namespace: 'y' },
  { name: 'b', namespace: 'x' },
]
const [AX, A, BY, BX] = TOOLS

test('a reference finds its own namespace first, then without one any', () => {
  const index = new ToolIndex(TOOLS)
  expect(index.find({ name: 'a' })).toBe(A)
  expect(index.find({ name: 'a', namespace: 'x' })).toBe(AX)
  expect(index.find({ name: 'b' })).toBe(BY)
  expect(index.find({ name: 'b', namespace: 'z' })).toBeUndefined()
  expect(index.exact({ name: 'b' })).toBeUndefined()
  expect(index.exact({ name: 'b', namespace: 'x' })).toBe(BX)
})

test('thousands of references to thousands of tools read each tool a few times', () => {
  let reads = 0
  const tools = Array.from({ length: 5000 }, (_, at) => ({
    get name() {
      reads += 1
      return `t${at % 7}`
    },
    namespace: `n${at % 3}`,
  }))
  const entries = Array.from({ length: 5000 }, (_, at) => [
    { type: 'function', name: `t${at % 9}` },
    { type: 'namespace', name: `n${at % 2}` },
  ])
  const choice = { type: 'allowed_tools', tools: entries.flat() }
  const allowed = allowedTools(choice, tools)
  expect(allowed.every(({ namespace }, at) => namespace !== 'n2' || at < 7)).toBe(true)
  expect(reads).toBeLessThanOrEqual(4 * tools.length)
})
