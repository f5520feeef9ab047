/** V4 across processes: two gateways on one store, and gateways that are killed around a client's tool call. */

import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../scripts/redis-server.mjs'
import type { StreamOutput, ToolCall } from '../../../core/src/index.ts'
import { turnstream } from '../cli/process.ts'
import { folderOfTest } from '../log/embedded/support.ts'

const PATIENCE = { timeout: 90_000, tags: ['slow'] }
const LISTENING = /^turnstream listening on (http:\/\/\S+)$/m

let redis: Awaited<ReturnType<typeof startRedis>>
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

interface Setup {
  readonly cwd: string
  readonly store: string
  /** How fast the scripted model speaks. */
  readonly speed?: string
}

async function serve({ cwd, store, speed = '10' }: Setup) {
  const pace = ['--lease', '1s', '--scripted-speed', speed]
  const env = { ANTHROPIC_API_KEY: 'sk-test' }
  const server = turnstream(['serve', '--port', '0', '--store', store, ...pace], { cwd, env })
  const [, url = ''] = await server.printed(LISTENING)
  return { ...server, url }
}

const TOOLS = [{ name: 'look', parameters: { type: 'object', properties: {} } }]

async function submit(url: string, body: object) {
  const response = await fetch(`${url}/api/v2/submit`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'scripted/client-tools', tools: TOOLS, ...body }),
  })
  return { status: response.status, body: (await response.json()) as { error?: { code: string } } }
}

/** The outputs of a turn, once it has ended. */
async function outputsOf(url: string, turnId: string): Promise<StreamOutput[]> {
  await (await fetch(`${url}/xapi/turns/${turnId}/stream`)).text()
  const response = await fetch(`${url}/xapi/turns/${turnId}`)
  return ((await response.json()) as { outputs: StreamOutput[] }).outputs
}

/** `turn: item status` of the calls in the thread. */
async function cardsOf(url: string, threadId: string): Promise<string[]> {
  const response = await fetch(`${url}/xapi/threads/${threadId}`)
  const { turns } = (await response.json()) as {
    turns: { turnId: string; outputs: StreamOutput[] }[]
  }
  return turns.flatMap(({ turnId, outputs }) =>
    outputs.flatMap((output) =>
      output.type === 'tool_call' ? [`${turnId}: ${output.itemId} ${output.status}`] : [],
    ),
  )
}

function answerTo(outputs: readonly StreamOutput[], output = 'seen') {
  const end = outputs.at(-1)
  const [call] = end && 'pendingCalls' in end ? (end.pendingCalls ?? []) : []
  const { callId: call_id, itemId } = call ?? { callId: 'unknown', itemId: '' }
  const input = [{ type: 'function_call_output', call_id, output, success: true }]
  return { itemId, input }
}

test('V4 a call is answered and completed over two gateways on one Redis', PATIENCE, async () => {
  const setup = { cwd: folderOfTest(), store: redis.url }
  const [one, two] = await Promise.all([serve(setup), serve({ ...setup, cwd: folderOfTest() })])
  await submit(one.url, { threadId: 'both', turnId: 'both-1', prompt: 'Look' })
  const { itemId, input } = answerTo(await outputsOf(one.url, 'both-1'))
  const leave = new AbortController()
  const { body } = await fetch(`${one.url}/xapi/threads/both/stream`, { signal: leave.signal })
  expect(await submit(two.url, { threadId: 'both', turnId: 'both-2', input })).toMatchObject({
    status: 202,
  })
  let seen = ''
  for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    seen += text
    if (seen.includes('The tool answered')) break
  }
  leave.abort()
  const statuses = [...seen.matchAll(/"type":"tool_call".*?"status":"(\w+)"/g)]
  expect(statuses.map(([, status]) => status)).toEqual(['create', 'complete'])
  for (const { url } of [one, two]) {
    expect(await cardsOf(url, 'both')).toEqual([`both-1: ${itemId} complete`])
    const unknown = await submit(url, { threadId: 'both', input: answerTo([]).input })
    expect([unknown.status, unknown.body.error?.code]).toEqual([400, 'TOOL_CALL_UNKNOWN'])
    const other = input.map((each) => ({ ...each, output: 'something else' }))
    const refused = await submit(url, { threadId: 'both', input: other })
    expect([refused.status, refused.body.error?.code]).toEqual([409, 'TOOL_CALL_ANSWERED'])
  }
})

test('V7 arguments stream from another gateway on the same Redis', PATIENCE, async () => {
  const setup = { store: redis.url, speed: '0.5' }
  const [one, two] = await Promise.all([
    serve({ ...setup, cwd: folderOfTest() }),
    serve({ ...setup, cwd: folderOfTest() }),
  ])
  const properties = { text: { type: 'string', minLength: 400 } }
  const parameters = { type: 'object', properties, required: ['text'] }
  const tools = [{ name: 'write', parameters }]
  const prompt = 'word '.repeat(80)
  await submit(one.url, { threadId: 'grow', turnId: 'grow-1', prompt, tools })
  const url = `${two.url}/xapi/turns/grow-1/stream?arguments=stream`
  const frames = [...(await (await fetch(url)).text()).matchAll(/^data: (.*"tool_call".*)$/gm)]
  const calls = frames.map(([, data = '']) => JSON.parse(data) as ToolCall)
  const lengths = calls.flatMap(({ toolArgumentsText: text }) => text?.length ?? [])
  expect(lengths.length).toBeGreaterThan(2)
  expect(lengths).toEqual(lengths.toSorted((a, b) => a - b))
  expect(calls[0]).toMatchObject({ status: 'create', toolName: 'write', toolArguments: {} })
  const last = calls.at(-1)
  expect(last).toMatchObject({ status: 'update', toolArguments: { text: expect.any(String) } })
  expect(last).not.toHaveProperty('toolArgumentsText')
})

describe.each([
  ['in a directory', () => 'data'],
  ['in Redis', () => redis.url],
])('V4 kill -9 with turns %s', PATIENCE, (name, storeOf) => {
  const threadId = name.replaceAll(' ', '-')

  test('after the output was written: the call is completed, and runs no second time', async () => {
    const setup = { cwd: folderOfTest(), store: storeOf() }
    const first = await serve(setup)
    await submit(first.url, { threadId, turnId: `${threadId}-1`, prompt: 'Look' })
    const { itemId, input } = answerTo(await outputsOf(first.url, `${threadId}-1`))
    first.child.kill('SIGKILL')
    await first.ended
    // The model waits 300 ms before it speaks: 30 seconds at this speed.
    const slow = await serve({ ...setup, speed: '0.01' })
    const body = { threadId, turnId: `${threadId}-2`, input }
    expect((await submit(slow.url, body)).status).toBe(202)
    slow.child.kill('SIGKILL')
    await slow.ended

    const { url } = await serve(setup)
    const outputs = await outputsOf(url, `${threadId}-2`)
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_error', error: { code: 'PRODUCER_LOST' } })
    expect(await cardsOf(url, threadId)).toEqual([`${threadId}-1: ${itemId} complete`])
    // The same submit is the same turn, and the same output in a new one goes on from there.
    expect((await submit(url, body)).status).toBe(202)
    const retried = { ...body, turnId: `${threadId}-3` }
    expect((await submit(url, retried)).status).toBe(202)
    const last = await outputsOf(url, `${threadId}-3`)
    expect(last.map(({ type }) => type)).toEqual(['turn_started', 'message', 'turn_complete'])
    expect(await cardsOf(url, threadId)).toEqual([`${threadId}-1: ${itemId} complete`])
  })

  test('after the call was written: the turn ends truthfully, and the call can be answered', async () => {
    const vendorUrl = await startSilentVendor()
    const cwd = folderOfTest()
    const anthropic = { baseUrl: vendorUrl, models: ['claude-test'] }
    writeFileSync(join(cwd, 'turnstream.config.json'), JSON.stringify({ providers: { anthropic } }))
    const setup = { cwd, store: storeOf() }
    const first = await serve(setup)
    const thread = `${threadId}-call`
    const ask = { threadId: thread, turnId: `${thread}-1`, model: 'anthropic/claude-test' }
    expect((await submit(first.url, { ...ask, prompt: 'Look' })).status).toBe(202)
    const { body } = await fetch(`${first.url}/xapi/turns/${thread}-1/stream`)
    for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      if (text.includes('"type":"tool_call"')) break
    }
    first.child.kill('SIGKILL')
    await first.ended

    const { url } = await serve(setup)
    const outputs = await outputsOf(url, `${thread}-1`)
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_error', error: { code: 'PRODUCER_LOST' } })
    const { itemId, input } = answerTo(outputs)
    expect(await cardsOf(url, thread)).toEqual([`${thread}-1: ${itemId} create`])
    const answered = await submit(url, { threadId: thread, turnId: `${thread}-2`, input })
    expect(answered.status).toBe(202)
    expect((await outputsOf(url, `${thread}-2`)).at(-2)).toMatchObject({
      content: 'The tool answered: seen',
    })
    expect(await cardsOf(url, thread)).toEqual([`${thread}-1: ${itemId} complete`])
  })
})

/** Makes a call of a tool, and says nothing after that. */
async function startSilentVendor(): Promise<string> {
  const usage = { input_tokens: 1, output_tokens: 1 }
  const message = { id: 'm', type: 'message', role: 'assistant', model: 'claude-test', content: [] }
  const tool = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }
  const events = [
    { type: 'message_start', message: { ...message, usage } },
    { type: 'content_block_start', index: 0, content_block: tool },
    { type: 'content_block_stop', index: 0 },
  ]
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const event of events) {
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
