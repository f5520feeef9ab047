/** Tools of a real MCP server. */

import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { connectMcpTools, type McpToolsOptions } from '../../src/server.ts'
import { EVERYTHING, everythingOverHttp, isAlive, serversOf, until } from './everything.ts'

vi.setConfig({ testTimeout: 60_000 })

const LOCAL = { command: process.execPath, args: [EVERYTHING] }

async function connect(more: Partial<McpToolsOptions> = {}) {
  const logs: string[] = []
  const tools = await connectMcpTools({
    name: 'everything',
    server: LOCAL,
    onLog: (message) => logs.push(message),
    ...more,
  })
  onTestFinished(() => tools.close())
  const call = async (name: string, args: Record<string, unknown> = {}, signal = never) => {
    const tool = tools.tools.find((each) => each.name === `everything__${name}`)
    if (tool === undefined) throw new Error(`no tool ${name}`)
    const context = { turnId: 't', threadId: 'h', callId: 'c', signal }
    return (await tool.execute(args, context)) as string
  }
  return { tools, call, logs }
}

const { signal: never } = new AbortController()

describe('a local server', { tags: ['slow'] }, () => {
  test('has its tools listed under its name, and they can be called', async () => {
    const { tools, call, logs } = await connect()
    expect(tools.isConnected).toBe(true)
    expect(tools.tools.map(({ name }) => name)).toContain('everything__get-sum')
    expect(logs).toEqual([`connected, with ${tools.tools.length} tools`])
    expect(await call('get-sum', { a: 2, b: 3 })).toBe('The sum of 2 and 3 is 5.')
    expect(await call('get-tiny-image')).toContain('[image image/png]')
    expect(await call('get-resource-links', { count: 2 })).toMatch(/\[.+\]\(demo:\/\/.+\)/)
    await expect(call('get-sum', { a: 'x' })).rejects.toThrow(/./)
  })

  test('gets its own environment, and nothing of ours', async () => {
    vi.stubEnv('OPENAI_API_KEY', 'sk-not-for-others')
    onTestFinished(() => void vi.unstubAllEnvs())
    const server = { ...LOCAL, env: { GREETING: 'hello', TOKEN: 'the-secret-token' } }
    const { call } = await connect({ server, secrets: ['the-secret-token'] })
    const env = await call('get-env')
    expect(JSON.parse(env)).toMatchObject({ GREETING: 'hello', TOKEN: '[redacted]' })
    expect(env).not.toContain('OPENAI_API_KEY')
  })

  test('that is killed fails the call that runs, and answers again soon', async () => {
    const { tools, call, logs } = await connect()
    const running = call('trigger-long-running-operation', { duration: 30, steps: 3 })
    const [pid = 0] = serversOf(process.pid)
    process.kill(pid, 'SIGKILL')
    await expect(running).rejects.toThrow('the MCP server failed: Connection closed')
    await expect(call('echo', { message: 'hi' })).rejects.toThrow('is not connected')
    await until(() => tools.isConnected)
    expect(await call('echo', { message: 'hi' })).toBe('Echo: hi')
    expect(logs[1]).toBe('the connection closed; next attempt in 500 ms')
  })

  test('that hangs is restarted after a call timed out', async () => {
    const { tools, call } = await connect()
    const [pid = 0] = serversOf(process.pid)
    process.kill(pid, 'SIGSTOP')
    const stop = new AbortController()
    const hanging = call('echo', { message: 'hi' }, stop.signal)
    stop.abort(new Error('timed out'))
    await expect(hanging).rejects.toThrow(/./)
    await until(() => !tools.isConnected)
    await until(() => tools.isConnected)
    expect(await call('echo', { message: 'hi' })).toBe('Echo: hi')
    expect(isAlive(pid)).toBe(false)
  })

  test('ends with its connection', async () => {
    const { tools } = await connect()
    const [pid = 0] = serversOf(process.pid)
    expect(isAlive(pid)).toBe(true)
    await tools.close()
    expect(isAlive(pid)).toBe(false)
    expect(tools.isConnected).toBe(false)
  })

  test('has its outputs and its parallel calls limited', async () => {
    const { call } = await connect({ maxOutputBytes: 100, maxParallelCalls: 1 })
    const message = 'x'.repeat(200)
    await expect(call('echo', { message })).rejects.toThrow('the output exceeds 100 bytes')
    const slow = call('trigger-long-running-operation', { duration: 0.5, steps: 1 })
    const order: string[] = []
    await Promise.all([
      slow.then(() => order.push('slow')),
      call('echo', { message: 'quick' }).then(() => order.push('quick')),
    ])
    expect(order).toEqual(['slow', 'quick'])
  })
})

describe('a server that cannot be started', () => {
  test('is retried, and does not delay the start', async () => {
    const { tools, logs } = await connect({ server: { command: '/no/such/command' } })
    expect([tools.isConnected, tools.tools]).toEqual([false, []])
    expect(logs[0]).toMatch(/^cannot connect: spawn .*ENOENT.*; next attempt in 500 ms$/)
    await until(() => logs[1]?.endsWith('next attempt in 1000 ms'))
  })

  test('reports why, with its last line of output', async () => {
    const code = 'console.error("no database"); process.exit(1)'
    const { logs } = await connect({ server: { command: process.execPath, args: ['-e', code] } })
    expect(logs[0]).toMatch(/\(no database\); next attempt in 500 ms$/)
  })

  test('is refused without a usable name', async () => {
    await expect(connect({ name: 'a__b' })).rejects.toThrow('"a__b" of an MCP server is not usable')
  })
})

test('a remote server may start later, and come back', { tags: ['slow'] }, async () => {
  const { url, start, stop } = await everythingOverHttp()
  const { tools, call } = await connect({ server: { url, headers: { 'x-key': 'some-secret' } } })
  expect(tools.isConnected).toBe(false)
  await start()
  await until(() => tools.isConnected)
  expect(await call('echo', { message: 'hi' })).toBe('Echo: hi')
  await stop()
  await until(() => !tools.isConnected)
  await expect(call('echo', { message: 'hi' })).rejects.toThrow('the MCP server is not connected')
  await start()
  await until(() => tools.isConnected)
  expect(await call('echo', { message: 'again' })).toBe('Echo: again')
})

describe('a remote server that is killed in the middle of a call', { tags: ['slow'] }, () => {
  test('fails the call at once, and is called again when it is back', async () => {
    const { url, start, stop } = await everythingOverHttp()
    await start()
    const { tools, call, logs } = await connect({ server: { url } })
    const running = call('trigger-long-running-operation', { duration: 50, steps: 5 })
    running.catch(() => {})
    // The server has begun when it answers a later call.
    await call('echo', { message: 'hi' })
    const killed = Date.now()
    await stop()
    // The second if the response to the call had not begun.
    const reason = /^the MCP server failed: (.*connection closed|fetch failed)$/i
    await expect(running).rejects.toThrow(reason)
    expect(Date.now() - killed).toBeLessThan(5000)
    await until(() => !tools.isConnected)
    await start()
    await until(() => tools.isConnected)
    expect(await call('echo', { message: 'again' })).toBe('Echo: again')
    expect(logs[1]).toMatch(/; next attempt in 500 ms$/)
  })

  test('fails the call at its time limit when it is silent instead', async () => {
    const { url, start, freeze } = await everythingOverHttp()
    await start()
    const { call } = await connect({ server: { url } })
    const limit = new AbortController()
    const running = call('trigger-long-running-operation', { duration: 50, steps: 5 }, limit.signal)
    let isOver = false
    const over = running.catch((error: unknown) => {
      isOver = true
      return error
    })
    await call('echo', { message: 'hi' })
    freeze()
    await new Promise(setImmediate)
    expect(isOver).toBe(false)
    limit.abort(new Error('timed out'))
    expect(String(await over)).toContain('the MCP server failed')
  })
})
