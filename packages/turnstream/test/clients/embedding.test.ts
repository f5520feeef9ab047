/** The programs of docs/embedding.md, with no more than ports and addresses changed. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { read, root } from '../../../../test/repository/sources.ts'
import { freePort, untilTrue } from '../cli/support.ts'
import { ChatVendor } from './chat-vendor.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

/** The blocks of the document, by the names in their first lines. */
const PROGRAMS = new Map(
  [...read('docs/embedding.md').matchAll(/^```js\n\/\/ ([\w-]+\.mjs)\n(.*?)^```$/gms)].map(
    ([, name = '', code = '']): [string, string] => [name, code],
  ),
)

const vendor = new ChatVendor()
let vendorUrl = ''

beforeAll(async () => {
  if (!existsSync(join(root, 'packages/turnstream/dist/server.js')))
    throw new Error('no dist/: run `npm run build`')
  vendorUrl = await vendor.start()
})
afterAll(() => vendor.stop())

interface Running {
  readonly url: string
  readonly child: ChildProcess
  /** Ends it in any case, and removes its files. */
  readonly stop: () => Promise<void>
  /** The exit code, and everything that was printed. */
  readonly ended: Promise<readonly [code: number | null, text: string]>
}

/** Runs a program of the document in a project of its own. */
async function start(program: string, prefix = ''): Promise<Running> {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-embedding-'))
  for (const [name, code] of PROGRAMS) {
    const changed = code
      .replaceAll('http://127.0.0.1:11434/v1', vendorUrl)
      .replaceAll('3000', `${port}`)
    writeFileSync(join(folder, name), changed)
  }
  link(folder, 'turnstream', join(root, 'packages/turnstream'))
  for (const name of ['hono', '@hono/node-server'])
    link(folder, name, join(root, 'node_modules', name))
  for (const name of ['express', 'fastify']) {
    link(folder, name, join(root, 'packages/turnstream/test/clients/node_modules', name))
  }
  const child = spawn(process.execPath, [program], { cwd: folder })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
  }
  const ended = once(child, 'close').then(([code]) => [code as number | null, text] as const)
  async function stop(): Promise<void> {
    child.kill('SIGKILL')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
  return { url: `http://127.0.0.1:${port}${prefix}`, child, ended, stop }
}

function link(folder: string, name: string, target: string): void {
  const path = join(folder, 'node_modules', name)
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(target, path)
}

async function startServer(program: string, prefix: string): Promise<Running> {
  const running = await start(program, prefix)
  let printed: string | undefined
  void running.ended.then(([, text]) => {
    printed = text
  })
  await untilTrue(async () => {
    if (printed !== undefined) throw new Error(`${program} ended: ${printed}`)
    const answer = await fetch(`${running.url}/readyz`).catch(() => undefined)
    return answer?.status === 200
  })
  return running
}

function post(
  url: string,
  body: object,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
) {
  return fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  })
}

async function submit(url: string, prompt: string): Promise<string> {
  const answer = await post(`${url}/api/v2/submit`, { prompt, turnId: prompt })
  expect(answer.status).toBe(202)
  return ((await answer.json()) as { turnId: string }).turnId
}

/** Reads a body until it holds `text`; what comes after that is read by the next call. */
function readerOf(answer: Response) {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
  let seen = ''
  return async (text?: string): Promise<string> => {
    for (;;) {
      if (text !== undefined && seen.includes(text)) return seen
      const { done, value } = await reader.read()
      if (done && text === undefined) return seen
      if (done) throw new Error(`the stream ended without ${text}: ${seen}`)
      seen += value
    }
  }
}

/** How many event streams have readers, as the metrics say. */
async function streamClients(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const values = [...text.matchAll(/^turnstream_stream_clients\{.*\} (\d+)$/gm)]
  expect(values.length).toBeGreaterThan(0)
  return values.reduce((sum, [, value]) => sum + Number(value), 0)
}

const SERVERS: [program: string, prefix: string][] = [
  ['listen.mjs', ''],
  ['hono.mjs', '/llm'],
  ['express.mjs', '/llm'],
  ['fastify.mjs', '/llm'],
]

describe.each(SERVERS)('%s', (program, prefix) => {
  let server: Running
  let url = ''

  beforeAll(async () => {
    server = await startServer(program, prefix)
    url = server.url
  })
  afterAll(() => server.stop())

  test('streams a turn while it runs', async () => {
    await submit(url, 'one')
    const answer = await fetch(`${url}/xapi/turns/one/stream`)
    expect(answer.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    const seenUntil = readerOf(answer)
    await seenUntil('A beginning')
    expect(vendor.open.has('one')).toBe(true)
    vendor.finish('one')
    expect(await seenUntil()).toMatch(/ and done\.".*"type":"turn_complete".*\n\n$/s)
  })

  test('runs the tool', async () => {
    const answer = await post(`${url}/xapi/threads/a/turn`, { prompt: 'What time is it?' })
    const text = await answer.text()
    expect(text).toMatch(/"toolName":"clock".*"success":true/)
    expect(text).toMatch(/"content":"It is \d+:\d+:\d+.[AP]M".*"type":"turn_complete"/s)
  })

  test('notices disconnected clients: their turn continues, or is cancelled if they requested that', async () => {
    await submit(url, 'two')
    const leaving = new AbortController()
    const answer = await fetch(`${url}/xapi/turns/two/stream`, { signal: leaving.signal })
    await readerOf(answer)('A beginning')
    expect(await streamClients(url)).toBe(1)
    leaving.abort()
    await untilTrue(async () => (await streamClients(url)) === 0)
    expect(vendor.open.has('two')).toBe(true)
    vendor.finish('two')
    expect(await (await fetch(`${url}/xapi/turns/two/stream`)).text()).toContain('turn_complete')

    const chat = new AbortController()
    const messages = [{ role: 'user', content: 'three' }]
    const headers = { 'turnstream-cancel-on-disconnect': 'true' }
    const body = { model: 'qwen3', messages, stream: true }
    const chunks = await post(`${url}/v1/chat/completions`, body, headers, chat.signal)
    await readerOf(chunks)('A beginning')
    chat.abort()
    await untilTrue(() => !vendor.open.has('three'))
  })

  test('serves its pages under the prefix and leaves other routes alone', async () => {
    expect((await fetch(`${url}/docs`)).headers.get('content-type')).toMatch(/^text\/html/)
    const page = await (await fetch(`${url}/`)).text()
    const [, script = ''] = /src="\.\/([^"]+\.js)"/.exec(page) ?? []
    expect((await fetch(`${url}/${script}`)).status).toBe(200)
    const isMounted = prefix !== ''
    expect((await (await fetch(new URL('/', url))).text()) === 'my app').toBe(isMounted)
    expect((await fetch(new URL('/api/v2/threads', url))).status).toBe(isMounted ? 404 : 200)
  })

  // The last: it ends the server.
  test('shuts down without losing a turn', async () => {
    await submit(url, 'four')
    const seenUntil = readerOf(await fetch(`${url}/xapi/turns/four/stream`))
    await seenUntil('A beginning')
    server.child.kill('SIGTERM')
    await untilTrue(async () => (await fetch(`${url}/readyz`)).status === 503)
    expect((await post(`${url}/api/v2/submit`, { prompt: 'five' })).status).toBe(503)
    expect((await fetch(`${url}/xapi/turns/four`)).status).toBe(200)
    vendor.finish('four')
    expect(await seenUntil()).toContain('"type":"turn_complete"')
    const [code, text] = await server.ended
    expect([code, text.replace(`${url}\n`, '')]).toEqual([0, ''])
  })
})

test('in-process.mjs prints a turn', async () => {
  const { ended, stop } = await start('in-process.mjs')
  onTestFinished(stop)
  const [code, text] = await ended
  expect(code, text).toBe(0)
  expect(text).toMatch(/^It is \d+:\d+:\d+.[AP]M\n$/)
})

test('sessions.mjs opens the gateway to logged-in users, as their tenant', async () => {
  const { url, stop } = await start('sessions.mjs', '/llm')
  onTestFinished(stop)
  await untilTrue(async () => (await fetch(url).catch(() => undefined)) !== undefined)
  const submits = (headers: Record<string, string>) =>
    post(`${url}/xapi/threads/a/turn`, { prompt: 'What time is it?' }, headers)
  expect((await submits({})).status).toBe(401)
  const answer = await submits({ cookie: 'session-1' })
  expect(await answer.text()).toContain('"type":"turn_complete"')
  const threads = await fetch(`${url}/api/v2/threads`, { headers: { cookie: 'session-1' } })
  expect(await threads.json()).toMatchObject({ threads: [{ threadId: 'a' }] })
})

// test/repository/examples.test.ts runs the block that prints.
test('every other block of the document is run here', () => {
  const blocks =
    read('docs/embedding.md').match(/^```\w+$(?!\nimport \{ StreamProcessor \})/gm) ?? []
  const run = [...SERVERS.map(([name]) => name), 'in-process.mjs', 'sessions.mjs', 'gateway.mjs']
  expect([...PROGRAMS.keys()].toSorted()).toEqual(run.toSorted())
  expect(blocks).toHaveLength(PROGRAMS.size)
})
