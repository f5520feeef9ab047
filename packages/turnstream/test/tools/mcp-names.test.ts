import { describe, expect, test } from 'vitest'
import { textOf } from '../../src/tools/mcp-client.ts'
import { StderrLines, toolName } from '../../src/tools/mcp-tools.ts'

describe('the name of an MCP tool', () => {
  test.each([
    ['read_file', 'files__read_file'],
    ['read.file/now', 'files__read_file_now'],
  ])('%s is %s', (tool, name) => {
    expect(toolName('files', tool)).toBe(name)
  })

  test('is cut to 64 characters, and stays unlike others', () => {
    const [one, other] = ['a', 'b'].map((end) => toolName('files', `${'x'.repeat(80)}${end}`))
    expect([one?.length, other?.length]).toEqual([64, 64])
    expect(one).not.toBe(other)
  })
})

test.each([
  [
    {
      content: [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
    },
    'a\nb',
  ],
  [{ content: [], structuredContent: { a: 1 } }, '{"a":1}'],
  [{ content: [{ type: 'text', text: 'a' }], structuredContent: { a: 1 } }, 'a'],
  [{ content: [{ type: 'resource', resource: { uri: 'x:1', text: 'inside' } }] }, 'inside'],
  [{ content: [{ type: 'resource', resource: { uri: 'x:1', blob: 'AA==' } }] }, '[resource x:1]'],
  [{ content: [{ type: 'resource_link', name: 'one', uri: 'x:1' }] }, '[one](x:1)'],
  [{ content: [{ type: 'audio', data: 'AA==', mimeType: 'audio/wav' }] }, '[audio audio/wav]'],
] as [Parameters<typeof textOf>[0], string][])('%j is given to the model as %j', (result, text) => {
  expect(textOf(result)).toBe(text)
})

describe('what a server writes to standard error', () => {
  test('is cut into lines, and the last one explains a failure', () => {
    const lines: string[] = []
    const stderr = new StderrLines((line) => lines.push(line))
    stderr.add('first\nsec')
    stderr.add('ond\n\nrest')
    expect(stderr.explain('it ended')).toBe('it ended (rest)')
    expect(lines).toEqual(['first', 'second', 'rest'])
    expect(new StderrLines(() => {}).explain('it ended')).toBe('it ended')
  })

  test('is bounded, by line and by number of lines', () => {
    const lines: string[] = []
    const stderr = new StderrLines((line) => lines.push(line))
    stderr.add('x'.repeat(10_000))
    stderr.add('\n')
    stderr.add('line\n'.repeat(1000))
    expect(lines[0]).toHaveLength(500)
    expect(lines).toHaveLength(201)
    expect(lines.at(-1)).toBe('further lines are left out')
  })
})
