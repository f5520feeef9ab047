/** Reasoning that clients send back by its id only, as OpenAI's own store allows. */

import { createHash } from 'node:crypto'
import type OpenAI from 'openai'
import { expect, test } from 'vitest'
import { TurnstreamError } from '../../../../core/src/index.ts'
import { KeyRing, MemoryLog } from '../../../src/server.ts'
import { type Answer, sse } from '../../providers/vendor-server.ts'
import { clientOf, stage as openaiStage } from '../openai/stage.ts'
import { SIGNING_VENDORS } from '../signing-vendors.ts'
import { json, send } from './support.ts'

const RESPONSES = 'POST /v1/responses'
const PROMPT = { role: 'user' as const, content: 'Go on.' }

/** Answers with `blob 1`, `blob 2` and so on. */
const answer: Answer = (response, request, count) => {
  const said = { thought: 'Hm.', text: 'Hi.', blob: `blob ${count}` }
  const frames = SIGNING_VENDORS.openai.frames(said).map((each) => JSON.stringify(each))
  return sse(...frames)(response, request, count)
}

/** A store that counts lookups of runs. */
class CountingLog extends MemoryLog {
  lookups = 0
  failure: TurnstreamError | undefined

  override getTurnOfRun(runId: string) {
    this.lookups += 1
    return super.getTurnOfRun(runId)
  }

  override tail: MemoryLog['tail'] = (...args) => {
    const { failure } = this
    this.failure = undefined
    if (failure !== undefined) throw failure
    return super.tail(...args)
  }
}

async function stage(keys?: KeyRing) {
  const log = new CountingLog()
  const staged = await openaiStage('openai-responses', answer, {
    log,
    ...(keys !== undefined && { keys }),
  })
  /** The encrypted reasoning of the last request to the vendor. */
  const blobs = (): unknown[] =>
    staged
      .asked()
      .input.filter(({ type }: { type: string }) => type === 'reasoning')
      .map((item: Record<string, unknown>) => item['encrypted_content'])
  return { ...staged, log, blobs }
}

type Input = OpenAI.Responses.ResponseInput

async function ask(client: OpenAI, input: Input, more: { previous_response_id?: string } = {}) {
  const response = await client.responses.create({ model: 'vendor/m', input, ...more })
  return { id: response.id, output: response.output as Input }
}

test('a thread that grows by `input += output` costs one lookup for each request', async () => {
  const { client, blobs, log } = await stage()
  const input: Input = []
  const expected: string[] = []
  for (let count = 1; count <= 5; count++) {
    input.push(PROMPT)
    const { output } = await ask(client, input)
    expect(blobs()).toEqual(expected)
    input.push(...output)
    expected.push(`blob ${count}`)
  }
  expect(JSON.stringify(input)).not.toContain('blob')
  expect(log.lookups).toBe(4)
})

test('a response that continues another by id keeps its reasoning', async () => {
  const { client, blobs } = await stage()
  const first = await ask(client, [PROMPT])
  const second = await ask(client, [...first.output, PROMPT])
  await ask(client, [PROMPT], { previous_response_id: second.id })
  expect(blobs()).toEqual(['blob 1', 'blob 2'])
})

test('encrypted content of the client is sent as it came', async () => {
  const { client, blobs } = await stage()
  const { output } = await ask(client, [PROMPT])
  const given = output.map((item) =>
    item.type === 'reasoning' ? { ...item, encrypted_content: 'from the client' } : item,
  )
  await ask(client, [...given, PROMPT])
  expect(blobs()).toEqual(['from the client'])
})

test.each([
  ['null', { encrypted_content: null }],
  ['empty', { encrypted_content: '' }],
])('encrypted content that is %s is missing', async (_name, more) => {
  const { client, blobs } = await stage()
  const { output } = await ask(client, [PROMPT])
  await ask(client, [...output.map((item) => ({ ...item, ...more })), PROMPT] as Input)
  expect(blobs()).toEqual(['blob 1'])
})

test('another tenant gets nothing by the ids of a response', async () => {
  const keys = ['acme', 'umbrella'].map((tenant) => {
    const sha256 = createHash('sha256').update(`the-key-of-${tenant}`).digest('hex')
    return { tenant, name: 'key', sha256 }
  })
  const { server, blobs } = await stage(new KeyRing(keys))
  const [acme, umbrella] = keys.map(({ tenant }) =>
    clientOf(server, { apiKey: `the-key-of-${tenant}` }),
  ) as [OpenAI, OpenAI]
  const { output } = await ask(acme, [PROMPT])
  await ask(umbrella, [...output, PROMPT])
  expect(blobs()).toEqual([])
  await ask(acme, [...output, PROMPT])
  expect(blobs()).toEqual(['blob 1'])
})

test('thousands of unknown ids cost at most 64 lookups, and the newest count', async () => {
  const { client, blobs, log } = await stage()
  const { output } = await ask(client, [PROMPT])
  const unknown = Array.from({ length: 3000 }, (_, index) => ({
    type: 'reasoning' as const,
    id: `rs_unknown${index}_1`,
    summary: [],
  }))
  await ask(client, [...unknown, ...output, PROMPT])
  expect(log.lookups).toBe(64)
  expect(blobs()).toEqual(['blob 1'])
})

test.each(['rs_', 'rs__1', '', `rs_${'x'.repeat(5000)}`, 'rs_\u0000_1', 'rs_\ud800_1', '../_1'])(
  'the id %j changes nothing',
  async (id) => {
    const { server, blobs } = await stage()
    const input = [{ type: 'reasoning', id, summary: [] }, PROMPT]
    const { status } = await send(server, RESPONSES, { model: 'vendor/m', input })
    expect([status, blobs()]).toEqual([200, []])
  },
)

test('reasoning of a deleted response is left out', async () => {
  const { server, client, blobs } = await stage()
  const { id, output } = await ask(client, [PROMPT])
  expect((await send(server, `DELETE /v1/responses/${id}`)).status).toBe(200)
  const { text } = await send(server, RESPONSES, { model: 'vendor/m', input: [...output, PROMPT] })
  expect(json({ text }).status).toBe('completed')
  expect(blobs()).toEqual([])
})

test('reasoning of a damaged response is left out', async () => {
  const { client, blobs, log } = await stage()
  const { output } = await ask(client, [PROMPT])
  log.failure = new TurnstreamError('STORE_CORRUPT', 'a turn')
  await ask(client, [...output, PROMPT])
  expect([log.failure, blobs()]).toEqual([undefined, []])
})
