/** Aliases of models: on every door, and in the list that Claude Code reads. */

import { expect, test } from 'vitest'
import { createScriptedProvider } from '../../../src/index.ts'
import { Providers } from '../../../src/server.ts'
import { HeldProvider } from '../held-provider.ts'
import { call, startServer } from '../support.ts'

async function stage() {
  const held = new HeldProvider()
  const other = createScriptedProvider({ id: 'other', recordings: { x: [] } })
  const providers = new Providers(
    [
      { provider: other, models: ['x'], defaultModel: 'x' },
      { provider: held, models: ['m'], defaultModel: 'm' },
    ],
    { 'claude-mine': 'held/m' },
  )
  return { held, server: await startServer({ providers }) }
}

const MODEL = { model: 'claude-mine' }
const messages = [{ role: 'user', content: 'Hi' }]

test.each([
  ['POST /api/v2/submit', { ...MODEL, prompt: 'Hi' }],
  ['POST /xapi/threads/one/turn', { ...MODEL, prompt: 'Hi' }],
  ['POST /v1/chat/completions', { ...MODEL, messages }],
  ['POST /v1/responses', { ...MODEL, input: 'Hi' }],
  ['POST /v1/messages', { ...MODEL, max_tokens: 100, messages }],
] as const)('%s calls the model of an alias', async (request, body) => {
  const { server, held } = await stage()
  const calling = held.nextCall()
  const answering = call(server, request, { body })
  const made = await calling
  made.finish()
  expect(made.request.model).toBe('m')
  expect((await answering).status).toBeLessThan(300)
})

test('aliases are listed after the models, and can be retrieved', async () => {
  const { server } = await stage()
  const { json } = await call(server, 'GET /v1/models')
  expect(json.data.map(({ id }: { id: string }) => id)).toEqual([
    'other/x',
    'held/m',
    'claude-mine',
  ])
  expect(json.data[2]).toMatchObject({ owned_by: 'held' })
  const headers = { 'anthropic-version': '2023-06-01' }
  const picker = await call(server, 'GET /v1/models?limit=1000', { headers })
  expect(picker.json.data[2]).toMatchObject({ id: 'claude-mine', display_name: 'held/m' })
  expect(picker.json).toMatchObject({ first_id: 'other/x', last_id: 'claude-mine' })
  const one = await call(server, 'GET /v1/models/claude-mine')
  expect(one.json).toMatchObject({ id: 'claude-mine', owned_by: 'held' })
})

test.each([
  ['limit=2', ['other/x', 'held/m'], true],
  ['limit=2&after_id=held/m', ['claude-mine'], false],
  ['after_id=claude-mine', [], false],
  ['limit=1&before_id=claude-mine', ['held/m'], true],
  ['before_id=held/m', ['other/x'], false],
])('a page of the models in Anthropic’s format: %s', async (query, ids, has_more) => {
  const { server } = await stage()
  const headers = { 'anthropic-version': '2023-06-01' }
  const { json } = await call(server, `GET /v1/models?${query}`, { headers })
  expect(json.data.map(({ id }: { id: string }) => id)).toEqual(ids)
  const [first_id, last_id] = [ids[0] ?? null, ids.at(-1) ?? null]
  expect(json).toMatchObject({ has_more, first_id, last_id })
})

test('a page after an unknown model is refused', async () => {
  const { server } = await stage()
  const headers = { 'anthropic-version': '2023-06-01' }
  const answer = await fetch(`${server.url}/v1/models?after_id=none`, { headers })
  expect(answer.status).toBe(400)
  expect(await answer.json()).toMatchObject({ error: { type: 'invalid_request_error' } })
})
