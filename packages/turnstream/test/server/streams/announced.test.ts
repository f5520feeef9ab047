import { expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { startServer } from '../support.ts'
import { RawClient } from './raw-client.ts'

test.each([
  { path: '/api/v2/submit', body: { prompt: 'Hello?', threadId: 'thread' } },
  { path: '/xapi/threads/thread/turn', body: { prompt: 'Hello?' } },
])('a turn submitted to $path in this process is announced immediately', async ({ path, body }) => {
  // Time stands still: nobody looks for turns.
  const { url, log } = await startServer({ clock: fakeClock(1000) })
  await log.putThread({ threadId: 'thread' })
  const client = await RawClient.open(Number(new URL(url).port), '/xapi/threads/thread/stream')
  await client.until(({ body }) => body.length > 0)
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${url}${path}`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  })
  expect(answer.ok).toBe(true)
  await client.until(({ body }) => body.includes('"turn_complete"'))
  await answer.text()
  client.close()
})
