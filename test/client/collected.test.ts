import { expect, test, vi } from 'vitest'
import { createClient } from '../../src/client/client.ts'
import { startServer } from '../server/support.ts'

test('a submitted turn is waited for by its id, even if nobody held on to it', async () => {
  const server = await startServer()
  const methods: string[] = []
  const client = createClient({
    baseUrl: server.url,
    fetch: async (input, init) => {
      methods.push(init?.method ?? 'GET')
      // Node's own fetch needs the global, too.
      await Promise.resolve()
      return fetch(input, init)
    },
  })
  vi.stubGlobal(
    'WeakRef',
    class Collected {
      readonly deref = () => undefined
    },
  )
  const { turnId } = client.submit({ prompt: 'Hi', model: 'plain/m' })
  vi.unstubAllGlobals()
  const again = client.turn(turnId)
  expect(again.getSnapshot().turn?.items).toMatchObject([{ content: 'Hi' }])
  expect((await again.done()).turn?.status).toBe('complete')
  expect(methods).toEqual(['POST', 'GET'])
})
