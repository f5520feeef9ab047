/** Commands whose responses are lost: they are sent again, and must not fail because the first one has worked. */

import { describe, expect, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import {
  finishedTurn,
  startServer,
  type TestServer,
} from '../../../turnstream/test/server/support.ts'
import { end, answer as say, call as toolCall } from '../../../turnstream/test/turns/payloads.ts'
import { puppet } from '../../../turnstream/test/turns/rig.ts'
import { tool } from '../../../turnstream/test/turns/some-tools.ts'
import { type ClientOptions, createClient } from '../../src/index.ts'

/** Loses the first response to a request with this method and path. */
function losing(server: TestServer, method: string, path: RegExp, options: ClientOptions = {}) {
  let sent = 0
  const client = createClient({
    ...{ baseUrl: server.url, random: () => 0, ...options },
    async fetch(input, init) {
      const response = await fetch(input, init)
      const isMeant = init?.method === method && typeof input === 'string' && path.test(input)
      if (!isMeant || sent++ > 0) return response
      await response.text()
      throw new TypeError('Load failed')
    },
  })
  return { client, sent: () => sent }
}

describe('V8 an answer to an approval', () => {
  async function asked() {
    const asking = puppet(
      [
        [...toolCall('1', 'delete'), end('tool_calls')],
        [...say('2', 'Thanks.'), end()],
      ],
      'asking',
    )
    const needing = tool('delete', () => 'deleted', { needsApproval: true })
    const server = await startServer({ tools: [needing], more: [asking] })
    const { client, sent } = losing(server, 'POST', /approvals/)
    const turn = client.submit({ prompt: 'Delete it', model: 'asking/m' })
    const unsubscribe = turn.subscribe(() => {})
    const approvalId = await eventually(() => {
      const card = turn.getSnapshot().turn?.items.find((item) => item.type === 'tool_call')
      expect(card?.approval?.status).toBe('requested')
      return card?.approval?.id ?? ''
    })
    return { client, sent, turn, approvalId, unsubscribe }
  }

  test.each([{ approved: true }, { approved: false, reason: 'not on a Friday' }])(
    '%o counts when its response is lost',
    async (answer) => {
      const { client, sent, turn, approvalId, unsubscribe } = await asked()
      await client.approve(turn.turnId, approvalId, answer)
      expect(sent()).toBe(2)
      await turn.done()
      unsubscribe()
    },
  )

  test.each([{ approved: true }, { approved: false, reason: 'never' }])(
    '%o does not count after another',
    async (answer) => {
      const { client, turn, approvalId, unsubscribe } = await asked()
      await client.approve(turn.turnId, approvalId, { approved: false, reason: 'no' })
      const late = client.approve(turn.turnId, approvalId, answer)
      await expect(late).rejects.toMatchObject({
        ...{ code: 'APPROVAL_ANSWERED', status: 409 },
        approval: { id: approvalId, status: 'declined', reason: 'no' },
      })
      unsubscribe()
    },
  )
})

describe('a thread', () => {
  test('is deleted once', async () => {
    const server = await startServer()
    const { threadId } = await finishedTurn(server, { model: 'plain/m' })
    const { client, sent } = losing(server, 'DELETE', /threads/)
    await client.delete(threadId)
    expect(sent()).toBe(2)
    expect(await server.log.getThread(threadId)).toBeUndefined()
  })

  test('that may not be deleted is not', async () => {
    const refused = async () => new Response('{}', { status: 400 })
    const client = createClient({ baseUrl: 'http://x', fetch: refused })
    await expect(client.delete('h')).rejects.toMatchObject({ status: 400 })
  })
})

test('a turn that is submitted again is in its thread once, with what is known of it', async () => {
  const server = await startServer()
  const client = createClient({ baseUrl: server.url })
  await client.submit({ prompt: 'Hi', threadId: 'h', model: 'plain/m' }).done()
  const thread = client.thread('h')
  const unsubscribe = thread.subscribe(() => {})
  await eventually(() => expect(thread.getSnapshot().turns).toHaveLength(1))
  const request = { prompt: 'Again', threadId: 'h', turnId: 't' }
  const refused = client.submit({ ...request, model: 'nobody/m' })
  await expect(refused.accepted()).rejects.toMatchObject({ code: 'MODEL_UNKNOWN' })
  expect(thread.getSnapshot().turns.at(-1)?.status).toBe('error')
  void client.submit({ ...request, model: 'plain/m' })
  expect(thread.getSnapshot().turns.map(({ status }) => status)).toEqual(['complete', 'running'])
  await eventually(() => expect(thread.getSnapshot().turns.at(-1)?.status).toBe('complete'))
  const { turns } = thread.getSnapshot()
  await client.submit({ ...request, model: 'plain/m' }).accepted()
  expect(thread.getSnapshot().turns).toBe(turns)
  unsubscribe()
})
