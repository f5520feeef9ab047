import { expect, test } from 'vitest'
import { importTools } from '../../src/tools/module-tools.ts'

function moduleOf(code: string): string {
  return `data:text/javascript,${encodeURIComponent(code)}`
}

test('the default export is a list of tools', async () => {
  const code = `export default [{ name: 'add', parameters: {}, execute: ({ a, b }) => a + b }]`
  const [tool] = await importTools(moduleOf(code))
  expect(tool?.execute({ a: 1, b: 2 }, {} as never)).toBe(3)
})

test.each([
  ['export const tools = []', 'the default export must be a list of tools'],
  ['export default [5]', 'tool 1 of the list: must be an object'],
  [`export default [{ name: 'a b' }]`, 'tool 1 of the list: name must have 1 to 64'],
  [`export default [{ name: 'a', parameters: {} }]`, 'a has no function execute'],
  [`export default [{ name: 'a', execute() {} }]`, 'parameters of a: must be a JSON Schema'],
  [
    `export default [{ name: 'a', parameters: {}, execute() {}, timeoutMs: '1s' }]`,
    'timeoutMs of a must be a number',
  ],
  [
    `export default [{ name: 'a', parameters: {}, execute() {}, needsApproval: 1 }]`,
    'needsApproval of a must be a boolean or a function',
  ],
  [
    `export default [{ name: 'a', parameters: {}, execute() {}, description: 1 }]`,
    'description of a must be a string',
  ],
])('%s is refused', async (code, message) => {
  await expect(importTools(moduleOf(code))).rejects.toThrow(message)
})
