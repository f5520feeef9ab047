import { expect, test } from 'vitest'
import { MemoryLog } from '../../../src/server.ts'
import { get } from './raw-client.ts'
import { serve } from './server.ts'

test.each([
  {
    path: '/api/v2/stream/{runId}',
    query: ['from', 'token'],
    statuses: ['200', '204', '400', '401', '404', '410'],
  },
  {
    path: '/xapi/turns/{turnId}/stream',
    query: ['arguments', 'encoding', 'from', 'token'],
    statuses: ['200', '204', '400', '401', '404', '410'],
  },
  {
    path: '/xapi/threads/{threadId}/stream',
    query: ['arguments', 'encoding', 'from', 'token'],
    statuses: ['200', '400', '401', '404'],
  },
])('$path is documented', async ({ path, query, statuses }) => {
  const { port } = await serve(new MemoryLog())
  const document = JSON.parse((await get(port, '/openapi.json')).body.toString())
  const { parameters, responses } = document.paths[path].get
  const named = (place: string) =>
    parameters
      .filter((each: { in: string }) => each.in === place)
      .map(({ name }: { name: string }) => name)
      .toSorted()
  expect(named('query')).toEqual(query)
  expect(named('header')).toEqual(['last-event-id'])
  expect(Object.keys(responses)).toEqual(expect.arrayContaining(statuses))
  expect(Object.keys(responses['200'].content)).toEqual(['text/event-stream'])
})
