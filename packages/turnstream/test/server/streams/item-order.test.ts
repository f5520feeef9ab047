/** A streamed call never comes before the items that began before it. */

import { expect, test } from 'vitest'
import { payloads } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { eventText } from '../../../../conformance/src/turn-log/texts.ts'
import type { StreamEventPayload, StreamOutput } from '../../../../core/src/index.ts'
import { RawClient } from './raw-client.ts'
import { createTurn, openLog, serve } from './server.ts'

const IDS = { turnId: 'turn', threadId: 'thread' }
const PATHS = [
  '/xapi/turns/turn/stream?arguments=stream',
  '/xapi/threads/thread/stream?arguments=stream',
  '/xapi/streams?threads=thread&arguments=stream',
]
const [TURN = ''] = PATHS

function message(itemId: string): StreamOutput {
  return { type: 'message', ...IDS, itemId, status: 'create', content: 'I call', origin: 'agent' }
}

function startedCall(itemId: string): StreamEventPayload {
  return payloads.itemStart(itemId, { item_type: 'function_call', name: 'look', call_id: itemId })
}

function doneCall(id: string): StreamEventPayload {
  const call = { type: 'function_call', id, name: 'look', call_id: id, arguments: '{}' } as const
  return payloads.itemDone(call)
}

function text(itemId: string): StreamEventPayload[] {
  return [payloads.itemStart(itemId), payloads.itemDelta(itemId, 'I call')]
}

/** A turn whose two logs are written apart, as a store does that is slower with one of them. */
async function serveTurn() {
  const log = await openLog()
  const lease = await createTurn(log, 'turn')
  const { port } = await serve(log)
  let events = 0
  let outputs = 0
  const say = async (...said: readonly StreamEventPayload[]) => {
    const records = said.map((payload) => {
      events += 1
      return { seq: events, data: eventText('turn', events, payload) }
    })
    await appendTo(log, lease, 'events', records)
  }
  const show = async (output: StreamOutput, seal = false) => {
    outputs += 1
    const records = [{ seq: outputs, data: JSON.stringify(output) }]
    return await appendTo(log, lease, 'processed', records, { seal })
  }
  await show({ type: 'turn_started', ...IDS, modelId: 'm', providerId: 'p' })
  return { say, show, port }
}

/** The items of the frames so far, each once. */
function itemsIn(client: RawClient): string[] {
  const ids = client.events.flatMap(({ data }) => {
    const { itemId } = JSON.parse(data) as { itemId?: string }
    return itemId ?? []
  })
  return [...new Set(ids)]
}

/**
 * Resolves when everything that may be sent of the events so far was sent: the open call `first`, which nothing holds,
 * gets its next words after all of that.
 */
async function settled(
  client: RawClient,
  say: (...said: StreamEventPayload[]) => Promise<void>,
  words: string,
): Promise<void> {
  await say(payloads.itemDelta('first', words))
  await client.until(() => client.body.includes(words))
}

test.each(PATHS)('a call waits for the text before it (%s)', async (path) => {
  const { say, show, port } = await serveTurn()
  const client = await RawClient.open(port, path)
  await say(startedCall('first'), ...text('text'), startedCall('second'))
  await settled(client, say, 'grown')
  expect(itemsIn(client)).toEqual(['first'])
  await show(message('text'))
  await client.until(() => itemsIn(client).includes('second'))
  expect(itemsIn(client)).toEqual(['first', 'text', 'second'])
  const second = client.events.filter(({ data }) => data.includes('"second"'))
  expect(second.map(({ data }) => JSON.parse(data).status)).toEqual(['create'])
  client.close()
})

test('a call waits for an earlier call that is complete', async () => {
  const { say, show, port } = await serveTurn()
  await say(startedCall('first'), startedCall('done'), doneCall('done'), startedCall('last'))
  const client = await RawClient.open(port, TURN)
  await settled(client, say, 'grown')
  expect(itemsIn(client)).toEqual(['first'])
  const call = { toolName: 'look', toolArguments: {}, callId: 'done' }
  const common = { ...IDS, itemId: 'done', status: 'create', content: '' } as const
  await show({ type: 'tool_call', ...common, ...call })
  await client.until(() => itemsIn(client).includes('last'))
  expect(itemsIn(client)).toEqual(['first', 'done', 'last'])
  client.close()
})

test.each([
  ['an item that is cancelled', payloads.itemCancelled('text')],
  [
    'an item that ends as cancelled',
    payloads.itemDone({ type: 'cancelled', id: 'text', reason: 'cut' }),
  ],
])('a call does not wait for %s, which may never be shown', async (_name, cancelled) => {
  const { say, port } = await serveTurn()
  const client = await RawClient.open(port, TURN)
  await say(startedCall('first'), ...text('text'), startedCall('second'))
  await settled(client, say, 'grown')
  expect(itemsIn(client)).toEqual(['first'])
  await say(cancelled)
  await client.until(() => itemsIn(client).includes('second'))
  client.close()
})

test('a call does not wait for a text without words', async () => {
  const { say, port } = await serveTurn()
  const client = await RawClient.open(port, TURN)
  await say(payloads.itemStart('text'), startedCall('call'))
  await client.until(() => itemsIn(client).length > 0)
  expect(itemsIn(client)).toEqual(['call'])
  client.close()
})

test('a call waits for a text that ended without words, and has a snapshot', async () => {
  const { say, show, port } = await serveTurn()
  const client = await RawClient.open(port, TURN)
  const done = payloads.itemDone(payloads.message('text', ''))
  await say(startedCall('first'), payloads.itemStart('text'), done, startedCall('second'))
  await settled(client, say, 'grown')
  expect(itemsIn(client)).toEqual(['first'])
  await show(message('text'))
  await client.until(() => itemsIn(client).includes('second'))
  expect(itemsIn(client)).toEqual(['first', 'text', 'second'])
  client.close()
})

test('a stream ends while a call waits', async () => {
  const { say, show, port } = await serveTurn()
  const client = await RawClient.open(port, TURN)
  await say(startedCall('first'), ...text('text'), startedCall('second'))
  await settled(client, say, 'grown')
  await show({ type: 'turn_complete', ...IDS, status: 'aborted' }, true)
  await client.whole()
  expect(itemsIn(client)).toEqual(['first'])
  client.close()
})

test('a reader that has the text by its cursor gets the call at once', async () => {
  const { say, show, port } = await serveTurn()
  await say(...text('text'), startedCall('call'))
  const offset = await show(message('text'))
  const client = await RawClient.open(port, `${TURN}&from=${offset}`)
  await client.until(() => itemsIn(client).length > 0)
  expect(itemsIn(client)).toEqual(['call'])
  client.close()
})

test('a reader whose cursor is not valid gets the text again before the call', async () => {
  const { say, show, port } = await serveTurn()
  await say(startedCall('first'), ...text('text'), startedCall('second'))
  await show(message('text'))
  const client = await RawClient.open(port, `${TURN}&from=7-9`)
  await client.until(() => itemsIn(client).includes('second'))
  const items = itemsIn(client)
  expect(items.indexOf('text')).toBeLessThan(items.indexOf('second'))
  client.close()
})
