/** What a request refers to: `previous_response_id` and `item_reference`. */

import { describe, expect, test } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { MemoryLog } from '../../../src/server.ts'
import { sealed, startServer } from '../support.ts'
import { UNLIMITED } from '../unlimited.ts'
import { json, send } from './support.ts'

/** What the provider is sent, as texts. */
function texts(items: readonly object[]): unknown[] {
  return items.map((each) => ('content' in each ? each.content : undefined))
}

describe('a response that is still running', () => {
  test.each([
    ['', ['Hi', 'And?']],
    ['Hel', ['Hi', 'Hel', 'And?']],
  ])('is continued with what it has said: %j', async (said, expected) => {
    const server = await startServer()
    const next = server.held.nextCall()
    const body = { model: 'held/m', input: 'Hi', background: true }
    const { id } = json(await send(server, 'POST /v1/responses', body))
    const running = await next
    if (said !== '') running.say(said)
    await eventually(async () => {
      const { output } = json(await send(server, `GET /v1/responses/${id}`))
      expect(output).toHaveLength(said === '' ? 0 : 1)
    })
    const following = server.held.nextCall()
    const continued = { ...body, input: 'And?', previous_response_id: id }
    expect((await send(server, 'POST /v1/responses', continued)).status).toBe(200)
    expect(texts((await following).request.input)).toEqual(expected)
  })

  test('has items that can be referred to', async () => {
    const server = await startServer()
    const next = server.held.nextCall()
    const body = { model: 'held/m', input: 'Hi', background: true }
    const { id } = json(await send(server, 'POST /v1/responses', body))
    ;(await next).say('Hel')
    const referenced = await eventually(async () => {
      const { output } = json(await send(server, `GET /v1/responses/${id}`))
      expect(output).toHaveLength(1)
      return output[0].id as string
    })
    const following = server.held.nextCall()
    const input = [
      { type: 'item_reference', id: referenced },
      { role: 'user', content: 'And?' },
    ]
    expect((await send(server, 'POST /v1/responses', { ...body, input })).status).toBe(200)
    expect(texts((await following).request.input)).toEqual(['Hel', 'And?'])
  })
})

test('a turn of our own API is continued with the thread before it', async () => {
  const server = await startServer()
  const ask = async (prompt: string) => {
    const turn = { prompt, model: 'plain/m', threadId: 'thread' }
    const { turnId } = json(await send(server, 'POST /api/v2/submit', turn))
    await sealed(server.log, turnId)
    return `resp_${turnId}`
  }
  await ask('One')
  const previous_response_id = await ask('Two')
  const next = server.held.nextCall()
  const body = { model: 'held/m', input: 'Three', background: true, previous_response_id }
  expect((await send(server, 'POST /v1/responses', body)).status).toBe(200)
  const answer = 'Hello, world.'
  const expected = ['One', answer, 'Two', answer, 'Three']
  expect(texts((await next).request.input)).toEqual(expected)
})

test('every item of the input can be referred to by the id that it is listed with', async () => {
  const server = await startServer()
  const given = [
    { role: 'user', content: 'A' },
    { role: 'assistant', content: 'B' },
    { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: 'C' },
    { role: 'user', content: 'D' },
    { role: 'user', content: 'E' },
  ]
  const first = { model: 'plain/m', input: given }
  const { id } = json(await send(server, 'POST /v1/responses', first))
  const { data } = json(await send(server, `GET /v1/responses/${id}/input_items?order=asc`))
  expect(data).toHaveLength(6)
  const next = server.held.nextCall()
  const input = data.map((each: { id: string }) => ({ type: 'item_reference', id: each.id }))
  const body = { model: 'held/m', input, background: true }
  expect((await send(server, 'POST /v1/responses', body)).status).toBe(200)
  expect((await next).request.input.map(({ type }) => type)).toEqual(
    given.map(({ type = 'message' }) => type),
  )
})

test('a request cannot refer to more than 8 MB of stored responses', async () => {
  const server = await startServer({ maxBodyBytes: 4_000_000 })
  const ids: string[] = []
  for (let count = 0; count < 3; count++) {
    const body = { model: 'plain/m', input: 'x'.repeat(3_000_000) }
    ids.push(json(await send(server, 'POST /v1/responses', body)).output[0].id)
  }
  const input = ids.map((id) => ({ type: 'item_reference', id }))
  const answer = await send(server, 'POST /v1/responses', { model: 'plain/m', input })
  expect([answer.status, json(answer).error.param]).toEqual([400, 'input'])
  const few = await send(server, 'POST /v1/responses', { model: 'plain/m', input: input.slice(1) })
  expect(few.status).toBe(200)
})

/** A store whose next lookup of a turn waits. */
class WaitingLog extends MemoryLog {
  #onLookup: (() => Promise<void>) | undefined

  /** Resolves when a lookup waits, with the function that lets it go on. */
  nextLookup(): Promise<() => void> {
    return new Promise((resolve) => {
      this.#onLookup = () => new Promise<void>((go) => resolve(go))
    })
  }

  override async getTurn(turnId: string) {
    const wait = this.#onLookup
    this.#onLookup = undefined
    await wait?.()
    return super.getTurn(turnId)
  }
}

test('what a request refers to is read within the limits of its key', async () => {
  const log = new WaitingLog()
  const server = await startServer({ log, limits: { ...UNLIMITED, maxConcurrentReads: 1 } })
  const body = { model: 'plain/m', input: 'Hi' }
  const { id } = json(await send(server, 'POST /v1/responses', body))
  const next = log.nextLookup()
  const continued = { ...body, previous_response_id: id }
  const first = send(server, 'POST /v1/responses', continued)
  const goOn = await next
  const second = await send(server, 'POST /v1/responses', continued)
  expect([second.status, json(second).error.code]).toEqual([429, 'rate_limit_exceeded'])
  goOn()
  expect((await first).status).toBe(200)
})
