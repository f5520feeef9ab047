// @module-tag slow
/** One key sends large bodies on many connections. The requests of others are served in between. */
import { expect, test } from 'vitest'
import { guardedServer } from '../auth/support.ts'
import { duringFlood, rawRequest } from './flood.ts'
import { meanHold } from './loop-holds.ts'

const CONNECTIONS = 150
const FLOOD_MS = 3000
const MB = 1024 * 1024

// In units of the CPU time to parse and write one body. Measured: 5, and 26 without time slices.
const MAX_HOLD = 20

const input = Array.from({ length: 1000 }, () => ({
  type: 'message',
  origin: 'user',
  content: 'x'.repeat((3 * MB) / 1000),
}))

/** CPU time of reading and writing a body, in ms. */
function unitMs(body: string): number {
  const rounds = 10
  const before = process.cpuUsage()
  for (let round = 0; round < rounds; round++) JSON.stringify(JSON.parse(body))
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000 / rounds
}

test('large bodies of one key do not block the event loop', async () => {
  const server = await guardedServer()
  const body = JSON.stringify({ input, providerId: 'plain' })
  const before = unitMs(body)
  const hold = await duringFlood(
    server,
    {
      requests: [rawRequest('POST /api/v2/submit', body)],
      plan: [{ request: 0, isRead: true }],
      parallel: CONNECTIONS,
    },
    () => meanHold(() => new Promise((resolve) => void setTimeout(resolve, FLOOD_MS))),
  )
  // Other tests slow this process down, and not at all times alike.
  const unit = Math.max(before, unitMs(body))
  expect(hold / unit).toBeLessThan(MAX_HOLD)
}, 60_000)
