import { describe, expect, test } from 'vitest'
import type { StreamOutput } from '../../../../core/src/index.ts'
import { ChatView } from '../../../src/cli/chat.ts'

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

describe('a message', () => {
  test('is printed as it grows and ends with a newline', () => {
    expect(show(message('a', 'One'), message('a', 'One two'), complete)).toBe('One two\n')
  })

  test('is not printed twice when it is repeated or shrinks', () => {
    const texts = [message('a', 'One two'), message('a', 'One two'), message('a', 'One two three')]
    expect(show(...texts, complete)).toBe('One two three\n')
  })

  test('is printed again with a note when it was corrected', () => {
    expect(show(message('a', 'One'), message('a', 'Two'), complete)).toBe('One\n(corrected) Two\n')
  })

  test('of the user is not echoed', () => {
    expect(show(message('a-user-prompt', 'Hi', { origin: 'user' }), message('a', 'Yes'))).toBe(
      'Yes',
    )
  })

  test('is separated from the previous message', () => {
    expect(show(thinking('a', 'Hm'), message('b', 'Yes'), complete)).toBe('<dim>Hm</>\n\nYes\n')
  })

  test('starts a new line when it continues after another item', () => {
    const texts = [message('a', 'One'), message('b', 'Two'), message('a', 'One more')]
    expect(show(...texts, complete)).toBe('One\n\nTwo\n more\n')
  })

  test('is dim on every line when it is thinking', () => {
    expect(show(thinking('a', 'Hm\n\nYes'))).toBe('<dim>Hm</>\n\n<dim>Yes</>')
  })

  test('cannot emit terminal control sequences', () => {
    const nasty = 'a\u001b[2Jb\u0007c\u009bd\re\tf\ng'
    expect(show(message('a', nasty))).toBe('a[2Jbcde\tf\ng')
  })
})

test('a note gets its own line and the text continues after it', () => {
  const view = new ChatView({ style: (_style, text) => text, columns: 60 })
  const shown = [
    view.show(message('a', 'One')),
    view.note('lost'),
    view.show(message('a', 'One two')),
    view.show(complete),
  ]
  expect(shown.join('')).toBe('One\n(lost)\n two\n')
})

describe('a tool call', () => {
  test('prints one line when it starts and one when it has output', () => {
    const done = call('complete', { toolOutput: { found: true }, success: true })
    expect(show(message('a', 'I look.'), call('create'), done, message('b', 'Found'))).toBe(
      'I look.\n<cyan>⚙ look({"at":1})</>\n<cyan>⚙ look({"at":1}) → {"found":true}</>\n\nFound',
    )
  })

  test('is not printed again when it is repeated', () => {
    expect(show(call('create'), call('create'))).toBe('<cyan>⚙ look({"at":1})</>\n')
  })

  test('is truncated to the terminal width', () => {
    const line = show(call('complete', { toolOutput: 'x'.repeat(500) }))
    expect(line.replaceAll(/<[^>]*>/g, '').trimEnd()).toHaveLength(60)
  })

  test('prints that its tool failed', () => {
    const failed = call('complete', { toolOutput: 'no network', success: false })
    expect(show(failed)).toBe('<cyan>⚙ look({"at":1}) → failed: "no network"</>\n')
  })

  test('prints the reason when it failed', () => {
    const failed = call('error', { errorCode: 'TOOL_TIMEOUT', errorMessage: 'too slow' })
    expect(show(failed)).toContain('<red>✗ TOOL_TIMEOUT: too slow</>')
  })
})

describe('the end of a turn', () => {
  const error = { code: 'overloaded', message: 'try later' }

  test('prints one red line when the turn failed together with its text', () => {
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

  test('prints a note when the turn was cancelled', () => {
    const aborted: StreamOutput = { type: 'turn_complete', ...turn, status: 'aborted' }
    expect(show(message('a', 'Half'), aborted)).toBe('Half\n<yellow>(stopped)</>\n')
    const cancelled = message('a', 'Half', { status: 'error', errorCode: 'ITEM_CANCELLED' })
    expect(show(cancelled, aborted)).toBe('Half\n<yellow>(stopped)</>\n')
  })

  test('prints nothing when the turn completed', () => {
    expect(show({ type: 'turn_started', ...turn }, complete)).toBe('')
  })
})
