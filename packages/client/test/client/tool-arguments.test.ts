/** V7: tool arguments while the model writes them. */

import { expect, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import type { StreamEventPayload } from '../../../core/src/index.ts'
import { heldTurn, startServer } from '../../../turnstream/test/server/support.ts'
import { createClient, type TurnView } from '../../src/index.ts'

const ARGUMENTS = JSON.stringify({ text: 'x'.repeat(100) })
const HALF = ARGUMENTS.slice(0, 60)

const OPENED: StreamEventPayload = {
  ...{ type: 'item_start', item_id: 'c', item_type: 'function_call' },
  ...{ name: 'write', call_id: 'c1' },
}

const DONE: StreamEventPayload = {
  ...{ type: 'item_done', item_id: 'c' },
  final_item: {
    type: 'function_call',
    id: 'c',
    name: 'write',
    arguments: ARGUMENTS,
    call_id: 'c1',
  },
}

/** The call of a turn. */
function cardOf(turn: TurnView | undefined) {
  return turn?.items.find((item) => item.type === 'tool_call')
}

test.each([true, false])('V7 with streamArguments %s', async (streamArguments) => {
  const server = await startServer()
  const { call, turnId, threadId } = await heldTurn(server)
  const client = createClient({ baseUrl: server.url, streamArguments })
  const [turn, thread] = [client.turn(turnId), client.thread(threadId)]
  const leave = [turn.subscribe(() => {}), thread.subscribe(() => {})]
  const cards = () => [cardOf(turn.getSnapshot().turn), cardOf(thread.getSnapshot().turns[0])]
  const isLive = () => {
    expect(turn.getSnapshot().connection.status).toBe('live')
    expect(thread.getSnapshot().connection.status).toBe('live')
  }
  await eventually(isLive)
  const seen = new Set<string | undefined>()
  leave.push(turn.subscribe(() => seen.add(cards()[0]?.toolArgumentsText)))
  call.stream.addEvent(OPENED)
  call.stream.addEvent({ type: 'item_delta', item_id: 'c', delta_content: HALF })
  if (streamArguments) {
    await eventually(() => {
      for (const card of cards()) expect(card?.toolArgumentsText).toBe(HALF)
    })
  }
  call.stream.addEvent(DONE)
  await eventually(() => {
    for (const card of cards()) {
      expect(card).toMatchObject({ toolArguments: JSON.parse(ARGUMENTS) })
      expect(card).not.toHaveProperty('toolArgumentsText')
    }
  })
  expect(seen.has(HALF)).toBe(streamArguments)
  for (const each of leave) each()
  call.finish()
})
