import { describe, expect, test } from 'vitest'
import { ToolRegistry } from '../../src/turns/tools.ts'

const tool = { name: 'get_time', parameters: {}, execute: () => 'noon' }

test("a client's tool with the name of a server tool is refused", () => {
  const { name, parameters } = tool
  const tools = new ToolRegistry([tool])
  expect(() => tools.check({ tools: [{ name, parameters }] })).toThrow(/is a tool of this server/)
  expect(() => tools.check({ tools: [{ name: 'other', parameters }] })).not.toThrow()
})

describe('a tool that is not offered', () => {
  const { name, parameters } = tool
  const own = { tools: [{ name, parameters }] }

  test('runs when it is called, and no model is told of it', () => {
    const tools = new ToolRegistry().withUnoffered([tool], {})
    expect(tools.get(name)).toBe(tool)
    expect(tools.settingsOf({}, 1)).toEqual({})
  })

  test("gives way to a client's tool and to a server's tool with its name", () => {
    const none = new ToolRegistry().withUnoffered([tool], own)
    expect(() => none.check(own)).not.toThrow()
    expect([none.get(name), none.names.has(name)]).toEqual([undefined, false])
    const other = { ...tool }
    const tools = new ToolRegistry([other]).withUnoffered([tool], {})
    expect(tools.get(name)).toBe(other)
    expect(() => tools.check(own)).toThrow(/is a tool of this server/)
  })
})
