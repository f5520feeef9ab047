/** Tools in the configuration of a real server: HTTP endpoints, a module and a real MCP server. */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type Process, turnstream } from '../cli/process.ts'
import { EVERYTHING, isAlive, serversOf, until } from './everything.ts'

vi.setConfig({ testTimeout: 90_000 })

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-server-tools-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
})

const MCP = { name: 'everything', mcp: { command: process.execPath, args: [EVERYTHING] } }

interface Gateway {
  readonly url: string
  readonly server: Process
}

async function serve(tools: readonly object[], env: Record<string, string> = {}): Promise<Gateway> {
  const settings = { port: 0, store: 'store', scriptedSpeed: 0, lease: '1s', tools }
  writeFileSync(join(folder, 'turnstream.config.json'), JSON.stringify(settings))
  const server = turnstream(['serve'], { cwd: folder, env })
  const [, url = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  return { url, server }
}

/** Starts a turn whose prompt names a tool and its arguments. */
async function submit({ url }: Gateway, prompt: string, turnId: string): Promise<void> {
  const response = await fetch(`${url}/api/v2/submit`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'scripted/server-tools', prompt, turnId }),
  })
  expect(response.status).toBe(202)
}

interface Output {
  readonly type: string
  readonly status?: string
  readonly content?: string
  readonly toolName?: string
  readonly toolOutput?: unknown
  readonly success?: boolean
  readonly errorCode?: string
}

async function outputsOf({ url }: Gateway, turnId: string): Promise<Output[]> {
  const stream = await fetch(`${url}/xapi/turns/${turnId}/stream`)
  await stream.text() // it ends with the turn
  const turn = await fetch(`${url}/xapi/turns/${turnId}`)
  return ((await turn.json()) as { outputs: Output[] }).outputs
}

let made = 0

/** The call and what the model made of its result. */
async function run(gateway: Gateway, prompt: string): Promise<{ call?: Output; said?: string }> {
  const turnId = `turn-${++made}`
  await submit(gateway, prompt, turnId)
  const outputs = await outputsOf(gateway, turnId)
  const call = outputs.find(({ type }) => type === 'tool_call')
  const said = outputs.findLast(({ type }) => type === 'message')?.content
  return { ...(call && { call }), ...(said !== undefined && { said }) }
}

/** An endpoint that counts its calls, and answers when the test lets it. */
async function startEndpoint(answer: (body: string, authorization?: string) => string | undefined) {
  const calls: string[] = []
  const server = createServer((request, response) => {
    void request.toArray().then((chunks) => {
      calls.push(chunks.join(''))
      const text = answer(chunks.join(''), request.headers.authorization)
      if (text !== undefined) response.end(text)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return { calls, url }
}

describe('serve', { tags: ['slow'] }, () => {
  test('runs tools of every kind, and keeps their secrets', async () => {
    const { url } = await startEndpoint((body, authorization) => `${authorization} got ${body}`)
    const module = `export default [{
      name: 'add',
      parameters: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },
      execute: ({ a }) => ({ sum: a + 1 }),
    }]`
    writeFileSync(join(folder, 'tools.mjs'), module)
    const headers = { authorization: 'Bearer ${WEATHER_TOKEN}' }
    const gateway = await serve(
      [
        { name: 'weather', http: { url, headers } },
        { module: './tools.mjs' },
        { ...MCP, mcp: { ...MCP.mcp, env: { MINE: '${WEATHER_TOKEN}' } } },
      ],
      { WEATHER_TOKEN: 'the-weather-token', OTHER: 'not-for-children' },
    )
    expect(await run(gateway, 'weather {"city":"Lisbon"}')).toMatchObject({
      call: { toolName: 'weather', status: 'complete', success: true },
      said: 'The tool answered: [redacted] got {"city":"Lisbon"}',
    })
    expect(await run(gateway, 'add {"a":1}')).toMatchObject({
      call: { toolOutput: { sum: 2 } },
      said: 'The tool answered: {"sum":2}',
    })
    const invalid = await run(gateway, 'add {"a":"one"}')
    expect(invalid.call).toMatchObject({ success: false })
    expect(invalid.said).toContain('do not match the schema: a: Instance type "string" is invalid.')
    const sum = await run(gateway, 'everything__get-sum {"a":2,"b":3}')
    expect(sum.said).toBe('The tool answered: The sum of 2 and 3 is 5.')
    const { said = '' } = await run(gateway, 'everything__get-env {}')
    expect(said).toContain('"MINE": "[redacted]"')
    expect(said).not.toContain('OTHER')
    expect(gateway.server.stderr()).toContain('MCP server everything: connected, with')
    expect(gateway.server.stderr()).not.toContain('the-weather-token')
  })

  test('an MCP server that is killed in a call fails it; the turn goes on, and later calls work', async () => {
    const gateway = await serve([MCP])
    await submit(gateway, 'everything__trigger-long-running-operation {"duration":60}', 'cut')
    const [pid = 0] = serversOf(gateway.server.child.pid)
    await until(async () => {
      const turn = await fetch(`${gateway.url}/xapi/turns/cut`)
      return (await turn.text()).includes('tool_call')
    })
    process.kill(pid, 'SIGKILL')
    const outputs = await outputsOf(gateway, 'cut')
    expect(outputs.find(({ type }) => type === 'tool_call')).toMatchObject({ success: false })
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_complete' })
    expect(outputs.at(-2)?.content).toContain('the MCP server failed: Connection closed')
    await until(() => serversOf(gateway.server.child.pid).length > 0)
    const works = await until(async () => {
      const { said } = await run(gateway, 'everything__echo {"message":"back"}')
      return said?.includes('Echo: back')
    })
    expect(works).toBe(true)
  })

  test('requests an approval where the entry needs one', async () => {
    const gateway = await serve([{ ...MCP, needsApproval: true }])
    await submit(gateway, 'everything__echo {"message":"hi"}', 'approved')
    const { runId, approval } = await until(async () => {
      const turn = await fetch(`${gateway.url}/xapi/turns/approved`)
      const { outputs } = (await turn.json()) as {
        outputs: (Output & { approval?: { id: string } })[]
      }
      const approval = outputs.find(({ type }) => type === 'tool_call')?.approval
      return approval && { runId: 'approved', approval }
    })
    const answer = await fetch(`${gateway.url}/api/v2/runs/${runId}/approvals/${approval.id}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"approved":true}',
    })
    expect(answer.status).toBe(200)
    const outputs = await outputsOf(gateway, 'approved')
    expect(outputs.at(-2)?.content).toBe('The tool answered: Echo: hi')
  })

  test('starts without an MCP server, and ends what it started', async () => {
    const down = { name: 'down', mcp: { command: '/no/such/command' } }
    const gateway = await serve([MCP, down])
    expect(gateway.server.stderr()).toContain('MCP server down: cannot connect')
    expect((await run(gateway, 'everything__echo {"message":"hi"}')).said).toContain('Echo: hi')
    const [pid = 0] = serversOf(gateway.server.child.pid)
    gateway.server.child.kill('SIGTERM')
    expect(await gateway.server.ended).toBe(0)
    expect(isAlive(pid)).toBe(false)
  })

  test('kill -9 in a call ends the turn truthfully, and nothing runs twice', async () => {
    const endpoint = await startEndpoint(() => undefined)
    const slow = { name: 'slow', http: { url: endpoint.url } }
    const first = await serve([slow, MCP])
    await submit(first, 'slow {"n":1}', 'lost')
    await until(() => endpoint.calls.length > 0)
    const [pid = 0] = serversOf(first.server.child.pid)
    first.server.child.kill('SIGKILL')
    await first.server.ended
    // Its standard input is closed.
    await until(() => !isAlive(pid))
    const second = await serve([slow, MCP])
    const outputs = await outputsOf(second, 'lost')
    expect(outputs.find(({ type }) => type === 'tool_call')).toMatchObject({ status: 'error' })
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_error', error: { code: 'PRODUCER_LOST' } })
    await run(second, 'everything__echo {"message":"hi"}')
    expect(endpoint.calls).toEqual(['{"n":1}'])
  })
})
