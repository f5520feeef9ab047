import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { startServer } from '../../../turnstream/test/server/support.ts'
import { createClient } from '../../src/index.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

/** What a failed assertion compares would be held by its error. */
function isCollected(reference: WeakRef<object>): boolean {
  collect()
  return reference.deref() === undefined
}

test('a submitted turn is kept until it is answered, even if nobody holds it', async () => {
  const server = await startServer()
  const methods: string[] = []
  let send = () => {}
  const isSent = new Promise<void>((resolve) => {
    send = resolve
  })
  const client = createClient({
    baseUrl: server.url,
    fetch: async (input, init) => {
      methods.push(init?.method ?? 'GET')
      await isSent
      return fetch(input, init)
    },
  })
  const unused = new WeakRef(client.turn('unused'))
  const submitted = new WeakRef(client.submit({ prompt: 'Hi', model: 'plain/m', turnId: 't' }))
  await eventually(() => expect(isCollected(unused)).toBe(true))
  expect(client.turn('t').getSnapshot().turn?.items).toMatchObject([{ content: 'Hi' }])
  send()
  expect((await client.turn('t').done()).turn?.status).toBe('complete')
  expect(methods).toEqual(['POST', 'GET'])
  await eventually(() => expect(isCollected(submitted)).toBe(true))
})
