/** The files of examples/, run as their README says, against a server that asks for keys. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { createClient as createClientOfSources } from '../../packages/client/src/index.ts'
import { readConfiguration } from '../../packages/turnstream/src/cli/serve/configuration.ts'
import { cuttingProxy } from '../../packages/turnstream/test/cli/cutting-proxy.ts'
import { type Process, turnstream } from '../../packages/turnstream/test/cli/process.ts'
import { freePort } from '../../packages/turnstream/test/cli/support.ts'
import { read, root } from './sources.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const ANSWER_END = /\S\n$/

let folder = ''
let server: Process
let url = ''
let key = ''
let origin = ''

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-example-files-'))
  const keysFile = join(folder, 'keys')
  const made = turnstream(['keys', 'add', 'acme', '--file', keysFile], {
    cwd: folder,
    outlives: true,
  })
  await made.ended
  key = made.stdout().trim()
  origin = `http://127.0.0.1:${await freePort()}`
  const args = ['serve', '--port', '0', '--store', 'memory', '--keys-file', keysFile]
  const env = { TURNSTREAM_CORS_ORIGINS: origin }
  server = turnstream(args, { cwd: folder, env, outlives: true })
  url = (await server.printed(/^turnstream listening on (\S+)\n/))[1] ?? ''
})

afterAll(async () => {
  server.child.kill('SIGKILL')
  await server.ended
  rmSync(folder, { recursive: true, force: true })
})

/** A line of the README, as a process; it ends with the test. */
function start(line: string, env: Record<string, string> = {}) {
  const child = spawn('sh', ['-c', `exec ${line}`], {
    cwd: root,
    env: { ...process.env, TURNSTREAM_URL: url, TURNSTREAM_KEY: key, ...env },
  })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
  }
  const ended = once(child, 'close').then(([code]) => code as number | null)
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, ended, text: () => text }
}

const README = read('examples/README.md')

/** What the README says to run for a file. */
function lineFor(file: string): string {
  const line = README.split('\n').find((each) => each.startsWith('|') && each.includes(`(${file})`))
  const [, command = ''] = /\| `([^`]+)`/.exec(line ?? '') ?? []
  expect(command).toContain(`examples/${file.replace('.html', '.mjs')}`)
  return command
}

test('curl.sh submits, is cut, resumes without a gap, and cancels', {
  tags: ['slow'],
}, async () => {
  const { ended, text } = start(lineFor('curl.sh'))
  expect(await ended, text()).toBe(0)
  const [, , cut = '', resumed = '', stopped = ''] = text().split(/^# .*\n/m)
  expect(cut).toContain('"type":"turn_started"')
  expect(cut).not.toContain('turn_complete')
  const frames = (cut + resumed).split('\n').filter((line) => line.startsWith('data: '))
  expect(new Set(frames).size).toBe(frames.length)
  expect(resumed).toContain('"type":"turn_complete"')
  expect(stopped).toContain('{"cancelled":true}')
  expect(stopped).toContain('"status":"aborted"')
  expect(text()).not.toContain(key)
})

describe('fetch.mjs', () => {
  test('prints the answer as it grows, and exits', { tags: ['slow'] }, async () => {
    const { ended, text } = start(lineFor('fetch.mjs'))
    expect(await ended, text()).toBe(0)
    expect(text()).toMatch(/^\*\*This is a recorded answer\.\*\*/)
    expect(text()).toMatch(ANSWER_END)
  })

  test('neither loses nor repeats text over broken connections', { tags: ['slow'] }, async () => {
    const whole = start(lineFor('fetch.mjs'))
    let streams = 0
    const proxy = await cuttingProxy(url, (request) => {
      if (!request.includes('/stream')) return undefined
      streams += 1
      return streams <= 2 ? 2000 : undefined
    })
    const cut = start(lineFor('fetch.mjs'), { TURNSTREAM_URL: proxy.url })
    expect(await cut.ended, cut.text()).toBe(0)
    await whole.ended
    expect(cut.text()).toBe(whole.text())
    expect(streams).toBe(3)
  })

  test("prints the gateway's error", async () => {
    const { ended, text } = start(lineFor('fetch.mjs'), { TURNSTREAM_KEY: 'none' })
    expect(await ended).toBe(1)
    expect(text()).toContain('KEY_INVALID')
  })
})

describe('client.mjs', () => {
  test('prints the answer over connections that break', { tags: ['slow'] }, async () => {
    let streams = 0
    const proxy = await cuttingProxy(url, (request) => {
      if (!request.includes('/stream')) return undefined
      streams += 1
      return streams <= 2 ? 2000 : undefined
    })
    const { ended, text } = start(lineFor('client.mjs'), { TURNSTREAM_URL: proxy.url })
    expect(await ended, text()).toBe(0)
    expect(text()).toMatch(/^\*\*This is a recorded answer\.\*\*/)
    expect(text()).toMatch(ANSWER_END)
    expect(streams).toBe(3)
  })

  test('fails with the code of a refusal', async () => {
    const { ended, text } = start(lineFor('client.mjs'), { TURNSTREAM_KEY: 'none' })
    expect(await ended).toBe(1)
    expect(text()).toContain('KEY_INVALID')
  })
})

test('openai.mjs lists the models and prints an answer with its cost', {
  tags: ['slow'],
}, async () => {
  const { ended, text } = start(lineFor('openai.mjs'))
  expect(await ended, text()).toBe(0)
  expect(text()).toMatch(/^models: scripted\/answer, /)
  expect(text()).toContain('**This is a recorded answer.**')
  expect(text()).toMatch(/\n\d+ tokens\nturn [\w-]+ is stored\n$/)
})

interface Element {
  textContent: string
  addEventListener: (type: string, listener: (event: object) => Promise<void>) => void
}

/** As much of a browser as the page needs: elements that keep text, and an EventSource over fetch. */
function browserAt(page: string) {
  const elements = new Map<string, Element>()
  const opened: string[] = []
  let submit: (event: object) => Promise<void> = () => Promise.reject(new Error('no listener'))
  class Source {
    static CLOSED = 2
    readyState = 0
    onmessage: (event: object) => void = () => {}
    onerror: () => void = () => {}
    readonly #abort = new AbortController()
    constructor(address: string) {
      opened.push(address)
      void this.#read(address).catch(() => {})
    }
    close() {
      this.#abort.abort()
    }
    async #read(address: string) {
      const headers = { origin: page, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' }
      const answer = await fetch(address, { headers, signal: this.#abort.signal })
      if (answer.headers.get('access-control-allow-origin') !== page) return
      let text = ''
      for await (const part of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        const frames = (text + part).split('\n\n')
        text = frames.pop() ?? ''
        for (const frame of frames) {
          const [, lastEventId] = /^id: (.*)$/m.exec(frame) ?? []
          const [, data] = /^data: (.*)$/m.exec(frame) ?? []
          if (data !== undefined) this.onmessage({ data, lastEventId })
        }
      }
    }
  }
  const globals = {
    document: {
      querySelector(selector: string): Element {
        const element = elements.get(selector) ?? {
          textContent: '',
          addEventListener: (_type, listener) => {
            submit = listener
          },
        }
        elements.set(selector, element)
        return element
      },
    },
    EventSource: Source,
    FormData: class {
      get = () => 'What is turnstream?'
    },
    fetch: (path: string, init: RequestInit) => fetch(new URL(path, page), init),
    setTimeout,
  }
  return {
    globals,
    opened,
    submit: () => submit({ preventDefault: () => {} }),
    shown: (selector: string) => elements.get(selector)?.textContent,
  }
}

describe('eventsource.html', () => {
  async function startBackend() {
    const backend = start(lineFor('eventsource.html'), { PORT: new URL(origin).port })
    await once(backend.child.stdout, 'data')
    expect(backend.text()).toBe(`open ${origin}\n`)
    return backend
  }

  test('shows the complete answer with a token and without the key', {
    tags: ['slow'],
  }, async () => {
    const backend = await startBackend()
    const page = await (await fetch(origin)).text()
    expect(page).toBe(read('examples/eventsource.html'))
    const script = /<script type="module">(.*)<\/script>/s.exec(page)?.[1] ?? ''
    const browser = browserAt(origin)
    runInNewContext(script, browser.globals)
    await browser.submit()
    await expect.poll(() => browser.shown('#state'), { timeout: 30_000 }).toBe('complete')
    expect(browser.shown('#answer')).toMatch(/^\*\*This is a recorded answer/)
    expect(browser.opened).toHaveLength(1)
    expect(browser.opened[0]).toMatch(/\?token=v1\./)
    for (const text of [page, browser.opened[0], backend.text()]) expect(text).not.toContain(key)
  })

  test('its backend issues no tokens for turns of others', async () => {
    await startBackend()
    const post = (path: string, body: object) =>
      fetch(origin + path, { method: 'POST', body: JSON.stringify(body) })
    expect((await post('/streams', { turnId: 'of-somebody-else' })).status).toBe(404)
    expect((await fetch(`${origin}/nothing`)).status).toBe(404)
    expect((await post('/turns', {})).status).toBe(200)
    expect((await fetch(`${origin}/turns`, { method: 'POST', body: '{' })).status).toBe(502)
  })
})

/** As much of a browser as the chat needs. */
function chatAt(page: string, script: string, createClient: typeof createClientOfSources) {
  const location = new URL('http://page.test')
  const output = { textContent: '' }
  let lines: { textContent: string }[] = []
  const listeners = new Map<string, (event: object) => void>()
  const listening = (name: string) => ({
    addEventListener: (_type: string, listener: (event: object) => void) => {
      listeners.set(name, listener)
    },
  })
  const form = {
    ...listening('form'),
    elements: { prompt: { value: 'What is turnstream?' } },
    reset: () => {},
    querySelector: (selector: string) => (selector === 'output' ? output : listening('stop')),
  }
  const main = {
    replaceChildren: (...children: typeof lines) => {
      lines = children
    },
  }
  const document = {
    querySelector: (selector: string) => (selector === 'main' ? main : form),
    createElement: () => ({ textContent: '' }),
  }
  return {
    location,
    load: () =>
      runInNewContext(script, {
        ...{ location, document, crypto },
        createClient: () => {
          const client = createClient({ baseUrl: page })
          const thread = (threadId: string) => {
            const opened = client.thread(threadId)
            // As when the page is closed.
            const subscribe: typeof opened.subscribe = (listener) => {
              const unsubscribe = opened.subscribe(listener)
              onTestFinished(unsubscribe)
              return unsubscribe
            }
            return { ...opened, subscribe }
          }
          // Sent until it is answered, which it never is once the gateway is gone.
          const cancel: typeof client.cancel = (turnId) => {
            const answered = client.cancel(turnId)
            onTestFinished(() => answered)
            return answered
          }
          return { ...client, thread, cancel }
        },
      }),
    fire: (name: 'form' | 'stop') => listeners.get(name)?.({ preventDefault: () => {} }),
    text: () => lines.map(({ textContent }) => textContent).join('\n'),
    state: () => output.textContent,
  }
}

describe('chat.html', () => {
  const IMPORT = "import { createClient } from '/turnstream/index.js'"

  async function startBackend() {
    const backend = start(lineFor('chat.html'), { PORT: new URL(origin).port })
    await once(backend.child.stdout, 'data')
    expect(backend.text()).toBe(`open ${origin}\n`)
    const html = await (await fetch(origin)).text()
    expect(html).toBe(read('examples/chat.html'))
    expect(html).toContain(IMPORT)
    const script =
      /<script type="module">(.*)<\/script>/s.exec(html)?.[1]?.replace(IMPORT, '') ?? ''
    const { createClient } = await import(join(root, 'packages/client/dist/index.js'))
    return { html, script, createClient }
  }

  test('continues after a reload in the middle of an answer, and stops', {
    tags: ['slow'],
  }, async () => {
    const { html, script, createClient } = await startBackend()
    expect(html.split('\n').length).toBeLessThanOrEqual(60)
    expect(html).not.toContain(key)
    const before = chatAt(origin, script, createClient)
    before.load()
    before.fire('form')
    await expect.poll(before.text).toMatch(/^user: What is turnstream\?\nagent: \*\*This/)
    const after = chatAt(origin, script, createClient)
    after.location.hash = before.location.hash
    after.load()
    await expect.poll(after.text).toContain('agent: **This')
    await expect.poll(() => after.text() === before.text() && after.text().length > 500).toBe(true)
    await expect.poll(after.state).toBe('complete')
    after.fire('form')
    await expect.poll(before.state).toBe('running')
    after.fire('stop')
    await expect.poll(() => after.text().split('user: ').length).toBe(3)
    await expect.poll(before.state).toBe('aborted')
  })

  test('its backend serves the client with everything that it imports, and nothing else', async () => {
    await startBackend()
    const seen = new Set<string>()
    const crawl = async (url: string): Promise<void> => {
      if (seen.has(url)) return
      seen.add(url)
      const response = await fetch(url)
      expect(response.headers.get('content-type'), url).toBe('text/javascript; charset=utf-8')
      const code = await response.text()
      const imports = [...code.matchAll(/(?:from|import) '([^']+)'/g)]
      for (const [, target = ''] of imports) await crawl(new URL(target, url).href)
    }
    await crawl(`${origin}/turnstream/index.js`)
    expect(seen.size).toBeGreaterThan(5)
    for (const path of [
      '/turnstream/nothing.js',
      '/turnstream/../package.json',
      '/x',
      '/healthz',
    ]) {
      expect((await fetch(origin + path)).status, path).toBe(404)
    }
  })
})

test('every example is in the README and uses only known variables', () => {
  const files = readdirSync(join(root, 'examples')).filter((name) => name !== 'README.md')
  for (const file of files) {
    expect(README, file).toContain(`(${file})`)
    for (const name of read(`examples/${file}`).match(/TURNSTREAM_\w+/g) ?? []) {
      const known = () => readConfiguration({ flags: {}, env: { [name]: '' }, cwd: tmpdir() })
      expect(known).not.toThrow()
    }
  }
})
