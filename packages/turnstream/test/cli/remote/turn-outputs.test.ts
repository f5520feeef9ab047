import { describe, expect, test } from 'vitest'
import type { StreamOutput } from '../../../../core/src/protocol/stream-output.ts'
import { EventFeed, outcomeOf, turnOutputs } from '../../../src/cli/gateway-client.ts'
import { patientTerminal } from '../patient-terminal.ts'
import { type Answer, serverWith, sse } from '../sse-server.ts'

const turn = { turnId: 'turn', threadId: 'thread' }
const complete: StreamOutput = { type: 'turn_complete', ...turn, status: 'complete' }

function message(content: string, status = 'update', itemId = 'a') {
  return { type: 'message', ...turn, itemId, status, content, origin: 'agent' }
}

let offset = 0
function frame(data: unknown, event = ''): string {
  offset += 1
  const name = event === '' ? '' : `event: ${event}\n`
  return `id: 1-${offset}\n${name}data: ${JSON.stringify(data)}\n\n`
}

const append = (at: number, text: string, more = {}) =>
  frame({ itemId: 'a', at, text, length: at + text.length, status: 'update', ...more }, 'append')

/** Reads what connections with these frames come to. */
async function read(...connections: string[][]) {
  const answers = connections.map((frames): Answer => {
    return (response) => sse(response).end(frames.join(''))
  })
  const { url, cursors } = await serverWith(...answers)
  const { terminal } = patientTerminal()
  const feed = new EventFeed({ url, clock: terminal.clock })
  const outputs: StreamOutput[] = []
  for await (const { output } of turnOutputs(feed)) outputs.push(output)
  return { contents: outputs.flatMap((each) => ('content' in each ? each.content : [])), cursors }
}

describe('the outputs of a turn', () => {
  test('are complete although only appends are sent', async () => {
    const frames = [frame(message('One')), append(3, ' two'), append(7, ' three')]
    const { contents } = await read([...frames, frame(complete)])
    expect(contents).toEqual(['One', 'One two', 'One two three'])
  })

  test('are not repeated after a reconnect', async () => {
    const first = [frame(message('One')), append(3, ' two')]
    const second = [frame(message('One two')), append(7, '!'), frame(complete)]
    const { contents, cursors } = await read(first, second)
    expect(contents).toEqual(['One', 'One two', 'One two!'])
    expect(cursors).toHaveLength(2)
  })

  test.each([
    ['starts past the end of the text', append(5, '?')],
    ['does not have the length that it says', append(3, ' two', { length: 99 })],
    ['is of an unknown item', append(0, 'x', { itemId: 'b' })],
    ['cannot be read', frame({ itemId: 'a' }, 'append')],
  ])('are requested from the beginning when an append %s', async (_name, bad) => {
    const { contents, cursors } = await read(
      [frame(message('One')), bad],
      [frame(message('One two')), frame(complete)],
    )
    expect(contents).toEqual(['One', 'One two'])
    expect(cursors).toEqual([undefined, undefined])
  })

  test('skip unknown types and unknown frames', async () => {
    const frames = [frame({ type: 'novelty' }), frame({}, 'resync'), frame(message('One'))]
    const { contents } = await read([...frames, 'data: no JSON\n\n', frame(complete)])
    expect(contents).toEqual(['One'])
  })
})

test.each<[StreamOutput, string | undefined]>([
  [complete, 'complete'],
  [{ type: 'turn_complete', ...turn, status: 'aborted' }, 'aborted'],
  [{ type: 'turn_error', ...turn, error: { code: 'x', message: 'y' } }, 'error'],
  [{ type: 'turn_started', ...turn }, undefined],
])('%j ends a turn: %s', (output, outcome) => {
  expect(outcomeOf(output)).toBe(outcome)
})
