import { expect, test } from 'vitest'
import { ROUTES } from '../../../core/src/protocol/names.ts'
import { path } from '../../src/client/paths.ts'
import { createClient } from '../../src/index.ts'

test('the paths of the client are those of the gateway', async () => {
  const requested: string[] = []
  const client = createClient({
    fetch: async (url) => {
      const [route = ''] = (url as string).split('?')
      requested.push(decodeURIComponent(route))
      return route.endsWith('/stream')
        ? Response.json({}, { status: 404 })
        : Response.json({ turns: [] })
    },
  })
  await client.submit({ prompt: 'Hi' }).accepted()
  await client.threads()
  await client.delete(':threadId')
  await client.cancel(':runId')
  await client.approve(':runId', ':approvalId', { approved: true })
  await client
    .turn(':turnId')
    .done()
    .catch(() => {})
  await client
    .thread(':threadId')
    .done()
    .catch(() => {})
  expect(requested).toEqual([
    ...[ROUTES.submit, ROUTES.threads, ROUTES.thread, ROUTES.runCancel, ROUTES.runApproval],
    ...[ROUTES.turnOutputStream, ROUTES.threadOutputs, ROUTES.threadOutputStream],
  ])
})

test('ids are encoded', () => {
  expect(path`/threads/${'a/b'}?from=${'c&d'}`).toBe('/threads/a%2Fb?from=c%26d')
})
