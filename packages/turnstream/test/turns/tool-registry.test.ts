import { expect, test } from 'vitest'
import { ToolRegistry } from '../../src/turns/tools.ts'

const tool = { name: 'get_time', parameters: {}, execute: () => 'noon' }

test("a client's tool with the name of a server tool is refused", () => {
  const { name, parameters } = tool
  const tools = new ToolRegistry([tool])
  expect(() => tools.check({ tools: [{ name, parameters }] })).toThrow(/is a tool of this server/)
  expect(() => tools.check({ tools: [{ name: 'other', parameters }] })).not.toThrow()
})
