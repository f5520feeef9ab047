/** What a client tells of commands that wait to be sent again. */

import { expect, test, vi } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { createClient, type Delivery } from '../../src/index.ts'
import { FakePage } from './support.ts'

const NOW = 1_000_000

const busy = (seconds: string) =>
  Response.json(
    { error: { code: 'TURNS_LIMITED', message: 'the limit is 8' } },
    { status: 429, headers: { 'retry-after': seconds } },
  )

/** A client of a server that gives these answers. */
function clientOf(answers: readonly (Response | Error)[]) {
  const clock = fakeClock(NOW)
  const deliveries: Delivery[] = []
  const left = [...answers]
  const send = vi.fn<typeof fetch>(async () => {
    const answer = left.shift() ?? Response.json({})
    if (answer instanceof Error) throw answer
    return answer
  })
  const onDelivery = (delivery: Delivery) => void deliveries.push(delivery)
  const client = createClient({
    ...{ baseUrl: 'http://gateway', clock, page: new FakePage(), random: () => 1 },
    ...{ fetch: send, onDelivery },
  })
  return { client, clock, deliveries, send }
}

const shown = (deliveries: readonly Delivery[]) =>
  deliveries.map(({ status, cause, retryAt }) => [status, cause?.code, retryAt])

test('a submit that waits tells why, and until when', async () => {
  const { client, clock, deliveries } = clientOf([new TypeError('Failed to fetch'), busy('20')])
  const turn = client.submit({ prompt: 'Hi', turnId: 't' })
  await clock.advance(250)
  await clock.advance(20_000)
  await turn.accepted()
  expect(shown(deliveries)).toEqual([
    ['connecting', undefined, undefined],
    ['connecting', 'CONNECTION_LOST', NOW + 250],
    ['connecting', 'CONNECTION_LOST', undefined],
    ['connecting', 'TURNS_LIMITED', NOW + 20_250],
    ['connecting', 'TURNS_LIMITED', undefined],
    ['ended', undefined, undefined],
  ])
  expect(deliveries[0]).toMatchObject({ path: '/api/v2/submit', body: { turnId: 't' } })
})

test('a command that waits can be sent at once, unless the gateway asked to wait', async () => {
  const { client, clock, deliveries, send } = clientOf([new TypeError('Load failed'), busy('20')])
  const cancelled = client.cancel('t')
  await clock.advance(0)
  expect(send).toHaveBeenCalledTimes(1)
  deliveries.at(-1)?.retry()
  await clock.advance(0)
  expect(send).toHaveBeenCalledTimes(2)
  deliveries.at(-1)?.retry()
  await clock.advance(19_999)
  expect(send).toHaveBeenCalledTimes(2)
  await clock.advance(1)
  await cancelled
  expect(deliveries.at(-1)).toMatchObject({ status: 'ended', path: '/api/v2/runs/t/cancel' })
})

test('a command that is refused ends with the cause', async () => {
  const { client, clock, deliveries } = clientOf([new Response('', { status: 409 })])
  const refused = client.approve('t', 'a', { approved: true })
  await expect(refused).rejects.toMatchObject({ status: 409 })
  await clock.advance(0)
  expect(shown(deliveries).at(-1)).toEqual(['failed', 'HTTP_409', undefined])
})
