import { describe, expect, test } from 'vitest'
import type { OutputItem, ToolDefinition } from '../../../../core/src/index.ts'
import { chooseCall, POSTCARD_TOOL, TOOL_MODELS } from '../../../src/cli/demo/tool-models.ts'

function tool(name: string, parameters: Record<string, unknown> = {}): ToolDefinition {
  return { name, parameters: { type: 'object', ...parameters } }
}

function asking(content: string): OutputItem {
  return { type: 'message', id: 'm', origin: 'user', content }
}

const CALL = { type: 'function_call', id: 'f', call_id: 'c', name: 'a', arguments: '{}' } as const

describe('the call', () => {
  const tools = [tool('read'), tool('read_file'), tool('list')]

  test.each([
    ['read_file {"path":"a"}', 'read_file', { path: 'a' }],
    ['Please read {"n":{"m":1}} now', 'read', { n: { m: 1 } }],
    ['list {not JSON}', 'list', {}],
    ['Hello', 'read', {}],
  ])('for %j is %s', (prompt, name, args) => {
    expect(chooseCall(prompt, tools)).toEqual({ name, args })
  })

  test.each([
    [{ city: { type: 'string' } }, { city: 'Lisbon' }],
    [{ query: { type: 'string' } }, { query: 'Hello' }],
    [{ code: { type: 'string', minLength: 7, maxLength: 7 } }, { code: 'Hello..' }],
    [{ day: { type: 'string', format: 'date' } }, { day: '2026-01-31' }],
    [{ kind: { enum: ['a', 'b'] } }, { kind: 'a' }],
    [{ n: { type: 'integer', minimum: 5 } }, { n: 5 }],
    [{ n: { type: 'number', exclusiveMinimum: 0 } }, { n: 1 }],
    [{ n: { type: 'number', maximum: -3 } }, { n: -3 }],
    [
      { is: { type: 'boolean' }, no: { type: 'null' } },
      { is: true, no: null },
    ],
    [{ list: { type: 'array', minItems: 2, items: { const: 7 } } }, { list: [7, 7] }],
    [{ one: { anyOf: [{ type: 'object', required: ['a'] }] } }, { one: { a: 'Hello' } }],
    [{ ref: { $ref: '#/$defs/r' } }, { ref: 'Hello' }],
    [{ with: { type: ['integer', 'string'], default: 3 } }, { with: 3 }],
  ])('for %j has plausible arguments', (properties, args) => {
    const required = Object.keys(properties)
    const $defs = { r: { type: 'string' } }
    const [one] = [tool('t', { properties, required, $defs })]
    expect(chooseCall('Hello', one === undefined ? [] : [one])).toEqual({ name: 't', args })
  })

  test('is to the first tool whose schema can be satisfied', () => {
    const never = tool('never', { required: ['a'], properties: { a: false } })
    const recursive = tool('r', { required: ['r'], properties: { r: { $ref: '#' } } })
    expect(chooseCall('Hello', [never, recursive, tool('ok')])?.name).toBe('ok')
    // Not checked on the event loop: a regular expression may take any time.
    const coded = tool('coded', {
      required: ['a'],
      properties: { a: { type: 'string', pattern: '^(H+e+l*)+$' } },
    })
    const referring = tool('referring', { ...never.parameters, $defs: {} })
    expect(chooseCall('Hello', [coded, referring, tool('ok')])?.name).toBe('ok')
    expect(chooseCall('coded {"a":"Hel"}', [coded])?.args).toEqual({ a: 'Hel' })
    expect(chooseCall('Hello', [never])).toBeUndefined()
  })
})

describe.each(['client-tools', 'server-tools'] as const)('the model %s', (model) => {
  const play = (...[input, more]: [OutputItem[], object?]) => {
    const events = TOOL_MODELS[model]({ model, input, tools: [tool('a'), tool('b')], ...more })
    return events.flatMap(({ payload }): unknown[] => {
      if (payload.type === 'response_done') return [payload.finish_reason]
      if (payload.type !== 'item_done' || payload.final_item.type === 'reasoning') return []
      return [payload.final_item]
    })
  }

  test('calls a tool, each time with another id', () => {
    const name = model === 'client-tools' ? 'b' : 'a'
    const call = { type: 'function_call', name, call_id: 'scripted-call-1', arguments: '{}' }
    expect(play([asking('Hi')])).toMatchObject([call, 'tool_calls'])
    const again = { ...call, call_id: 'scripted-call-2' }
    expect(play([asking('Hi'), CALL, asking('Again')])).toMatchObject([again, 'tool_calls'])
  })

  test('answers with what the tool returned', () => {
    const output = (text: string, success: boolean) =>
      ({ type: 'function_call_output', id: 'o', call_id: 'c', output: text, success }) as const
    expect(play([asking('Hi'), CALL, output('42', true)])).toMatchObject([
      { content: 'The tool answered: 42' },
      'stop',
    ])
    expect(play([asking('Hi'), CALL, output('no', false)])).toMatchObject([
      { content: 'The tool failed: no' },
      'stop',
    ])
  })

  test.each([{ tools: [] }, { toolChoice: 'none' }])(
    'reports that it may call none: %j',
    (more) => {
      const [said] = play([asking('Hi')], more)
      expect(said).toMatchObject({ content: expect.stringContaining('There is no tool') })
    },
  )
})

test('V8 the model approval calls a tool that needs approval, and answers with its result', () => {
  const { approval } = TOOL_MODELS
  const [call, end] = approval({ model: 'approval', input: [asking('Hi')] })
    .map(({ payload }) => payload)
    .slice(-2)
  const args = JSON.stringify({ to: 'Lisbon', text: 'Hi' })
  const { name } = POSTCARD_TOOL
  expect(call).toMatchObject({ final_item: { type: 'function_call', name, arguments: args } })
  expect(end).toMatchObject({ finish_reason: 'tool_calls' })
  expect(POSTCARD_TOOL).toMatchObject({ needsApproval: true })
  const output = {
    type: 'function_call_output',
    id: 'o',
    call_id: 'c',
    output: 'no',
    success: false,
  } as const
  const answered = approval({ model: 'approval', input: [asking('Hi'), CALL, output] })
  expect(JSON.stringify(answered)).toContain('The tool failed: no')
})
