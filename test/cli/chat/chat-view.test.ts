import { describe, expect, test } from 'vitest'
import { ChatView } from '../../../src/cli/chat.ts'
import type { StreamOutput } from '../../../src/protocol/stream-output.ts'

const turn = { turnId: 'turn', threadId: 'thread' }

function message(itemId: string, content: string, more = {}): StreamOutput {
  return { type: 'message', ...turn, itemId, status: 'update', content, origin: 'agent', ...more }
}

function thinking(itemId: string, content: string): StreamOutput {
  return { type: 'thinking', ...turn, itemId, status: 'update', content, providerId: 'p' }
}

function call(status: 'create' | 'complete' | 'error', more = {}): StreamOutput {
  const fixed = { toolName: 'look', toolArguments: { at: 1 }, callId: 'c', content: '' }
  return { type: 'tool_call', ...turn, itemId: 'call', status, ...fixed, ...more }
}

const complete: StreamOutput = { type: 'turn_complete', ...turn, status: 'complete' }

function show(...outputs: StreamOutput[]): string {
  const view = new ChatView({ style: (style, text) => `<${String(style)}>${text}</>`, columns: 60 })
  return outputs.map((output) => view.show(output)).join('')
}

describe('a text', () => {
  test('is printed as it grows, and ends with its line', () => {
    expect(show(message('a', 'One'), message('a', 'One two'), complete)).toBe('One two\n')
  })

  test('that comes again, or shorter than it was, is not printed twice', () => {
    const texts = [message('a', 'One two'), message('a', 'One two'), message('a', 'One two three')]
    expect(show(...texts, complete)).toBe('One two three\n')
  })

  test('that was corrected is printed anew, and said to be', () => {
    expect(show(message('a', 'One'), message('a', 'Two'), complete)).toBe('One\n(corrected) Two\n')
  })

  test('of the user is not repeated', () => {
    expect(show(message('a-user-prompt', 'Hi', { origin: 'user' }), message('a', 'Yes'))).toBe(
      'Yes',
    )
  })

  test('is apart from the one before it', () => {
    expect(show(thinking('a', 'Hm'), message('b', 'Yes'), complete)).toBe('<dim>Hm</>\n\nYes\n')
  })

  test('that goes on after another one has come in between begins a line', () => {
    const texts = [message('a', 'One'), message('b', 'Two'), message('a', 'One more')]
    expect(show(...texts, complete)).toBe('One\n\nTwo\n more\n')
  })

  test('of a thought is dim, line by line', () => {
    expect(show(thinking('a', 'Hm\n\nYes'))).toBe('<dim>Hm</>\n\n<dim>Yes</>')
  })

  test('cannot command the terminal', () => {
    const nasty = 'a\u001b[2Jb\u0007c\u009bd\re\tf\ng'
    expect(show(message('a', nasty))).toBe('a[2Jbcde\tf\ng')
  })
})

test('a note stands in a line of its own, and the text goes on after it', () => {
  const view = new ChatView({ style: (_style, text) => text, columns: 60 })
  const shown = [
    view.show(message('a', 'One')),
    view.note('lost'),
    view.show(message('a', 'One two')),
    view.show(complete),
  ]
  expect(shown.join('')).toBe('One\n(lost)\n two\n')
})

describe('a call', () => {
  test('is a line when it is made and another when it has its output', () => {
    const done = call('complete', { toolOutput: { found: true }, success: true })
    expect(show(message('a', 'I look.'), call('create'), done, message('b', 'Found'))).toBe(
      'I look.\n<cyan>⚙ look({"at":1})</>\n<cyan>⚙ look({"at":1}) → {"found":true}</>\n\nFound',
    )
  })

  test('that comes again is not shown again', () => {
    expect(show(call('create'), call('create'))).toBe('<cyan>⚙ look({"at":1})</>\n')
  })

  test('is cut to the width of the terminal', () => {
    const line = show(call('complete', { toolOutput: 'x'.repeat(500) }))
    expect(line.replaceAll(/<[^>]*>/g, '').trimEnd()).toHaveLength(60)
  })

  test('that failed says why', () => {
    const failed = call('error', { errorCode: 'TOOL_TIMEOUT', errorMessage: 'too slow' })
    expect(show(failed)).toContain('<red>✗ TOOL_TIMEOUT: too slow</>')
  })
})

describe('the end', () => {
  const error = { code: 'overloaded', message: 'try later' }

  test('of a turn that failed is one red line, though its text has failed with it', () => {
    const text = message('a', 'Half', {
      status: 'error',
      errorCode: error.code,
      errorMessage: error.message,
    })
    expect(show(text, { type: 'turn_error', ...turn, error })).toBe(
      'Half\n<red>✗ overloaded: try later</>\n',
    )
    expect(show(message('a', 'Half'), { type: 'turn_error', ...turn, error })).toBe(
      'Half\n<red>✗ overloaded: try later</>\n',
    )
  })

  test('of a turn that was stopped says so', () => {
    const aborted: StreamOutput = { type: 'turn_complete', ...turn, status: 'aborted' }
    expect(show(message('a', 'Half'), aborted)).toBe('Half\n<yellow>(stopped)</>\n')
    const cancelled = message('a', 'Half', { status: 'error', errorCode: 'ITEM_CANCELLED' })
    expect(show(cancelled, aborted)).toBe('Half\n<yellow>(stopped)</>\n')
  })

  test('and the beginning are silent by themselves', () => {
    expect(show({ type: 'turn_started', ...turn }, complete)).toBe('')
  })
})
