// Q1: what does a frame cost a page, from its bytes to the notification of the renderer? Load: an answer of 1k to
//     100k tokens, a frame and a chunk per token, a notification per frame as on a hidden page. Rivals: the AI SDK's
//     `useChat` (its `Chat`, without React) and AG-UI's `HttpAgent`, each with its own format of the same tokens.
// Q2: how much does a page load? Each client bundled and minified by esbuild, compressed, without React.
import { gzipSync } from 'node:zlib'
import { expectRatio, isQuick, measure, nsOf, printTable } from './measure.mjs'
import { clientFile, shareFile, client as turnstreamClient } from './turnstream.mjs'

/** Loaded by a name that the type checker does not follow. @param {string} name @returns {Promise<any>} */
const load = (name) => import(name)

const { DefaultChatTransport } = await load('ai')
const { Chat } = await load('@ai-sdk/react')
const { HttpAgent } = await load('@ag-ui/client')
const esbuild = await load('esbuild')

const LOADS = [1000, 10_000, 100_000]
const utf8 = new TextEncoder()

/** @param {number} count */
function tokens(count) {
  return Array.from({ length: count }, (_, at) => ` t${String(at % 1000).padStart(3, '0')}`)
}

/** @param {readonly (object | string)[]} frames SSE data, or complete frames. */
function chunksOf(frames) {
  return frames.map((frame) =>
    utf8.encode(typeof frame === 'string' ? frame : `data: ${JSON.stringify(frame)}\n\n`),
  )
}

/** A response that arrives chunk by chunk. @param {readonly Uint8Array[]} chunks */
function responseOf(chunks) {
  let at = 0
  const body = new ReadableStream({
    pull(controller) {
      const chunk = chunks[at++]
      if (chunk) controller.enqueue(chunk)
      else controller.close()
    },
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

/** @typedef {{ name: string, chunks: (count: number) => Uint8Array[], read: (chunks: Uint8Array[]) => Promise<number> }} Reader */

const IDS = { turnId: 't', threadId: 'h' }

/** @type {Reader} */
const ours = {
  name: 'turnstream/client',
  chunks(count) {
    const [first = '', ...rest] = tokens(count)
    const item = { type: 'message', ...IDS, itemId: 'a', origin: 'agent' }
    let length = first.length
    const appends = rest.map((text, index) => {
      const at = length
      length += text.length
      const status = index === count - 2 ? 'complete' : 'update'
      const data = JSON.stringify({ itemId: 'a', at, text, length, status })
      return `id: 1-${index + 3}\nevent: append\ndata: ${data}\n\n`
    })
    return chunksOf([
      'retry: 1000\n: heartbeat every 15000 ms\n\nid: 0-0\n\n',
      { type: 'turn_started', ...IDS },
      { ...item, status: 'create', content: first },
      ...appends,
      { type: 'turn_complete', ...IDS, status: 'complete' },
    ])
  },
  async read(chunks) {
    const client = turnstreamClient.createClient({ fetch: async () => responseOf(chunks) })
    const turn = client.turn('t')
    let length = 0
    const unsubscribe = turn.subscribe(() => {
      length = turn.getSnapshot().turn?.items[0]?.content.length ?? 0
    })
    await turn.done()
    unsubscribe()
    return length
  },
}

/** @type {Reader} */
const aiSdk = {
  name: 'AI SDK useChat',
  chunks: (count) =>
    chunksOf([
      { type: 'start', messageId: 'm' },
      { type: 'start-step' },
      { type: 'text-start', id: 'a' },
      ...tokens(count).map((delta) => ({ type: 'text-delta', id: 'a', delta })),
      { type: 'text-end', id: 'a' },
      { type: 'finish-step' },
      { type: 'finish' },
      'data: [DONE]\n\n',
    ]),
  async read(chunks) {
    const transport = new DefaultChatTransport({ fetch: async () => responseOf(chunks) })
    const chat = new Chat({ transport })
    let length = 0
    chat['~registerMessagesCallback'](() => {
      const part = chat.messages.at(-1)?.parts.at(-1)
      length = part?.text?.length ?? 0
    })
    await chat.sendMessage({ text: 'Hi' })
    if (chat.error) throw chat.error
    return length
  },
}

/** @type {Reader} */
const agUi = {
  name: 'AG-UI HttpAgent',
  chunks: (count) =>
    chunksOf([
      { type: 'RUN_STARTED', threadId: 'h', runId: 'r' },
      { type: 'TEXT_MESSAGE_START', messageId: 'a', role: 'assistant' },
      ...tokens(count).map((delta) => ({ type: 'TEXT_MESSAGE_CONTENT', messageId: 'a', delta })),
      { type: 'TEXT_MESSAGE_END', messageId: 'a' },
      { type: 'RUN_FINISHED', threadId: 'h', runId: 'r' },
    ]),
  async read(chunks) {
    const agent = new HttpAgent({ url: 'http://gateway/', fetch: async () => responseOf(chunks) })
    let length = 0
    await agent.runAgent(
      {},
      {
        onMessagesChanged(/** @type {any} */ { messages }) {
          length = messages.at(-1)?.content.length ?? 0
        },
      },
    )
    return length
  },
}

const label = (/** @type {Reader} */ { name }, /** @type {number} */ count) =>
  `${name}, ${count / 1000}k tokens`

/** Reads at least `count` tokens. @param {Reader} reader @param {number} count @param {number} least */
function subject(reader, count, least) {
  const chunks = reader.chunks(count)
  const expected = tokens(count).join('').length
  const turns = Math.max(1, Math.round(least / count))
  return {
    name: label(reader, count),
    async run() {
      for (let turn = 0; turn < turns; turn++) {
        const length = await reader.read(chunks)
        if (length !== expected) throw new Error(`${reader.name}: ${length} of ${expected}`)
      }
      return turns * count
    },
  }
}

async function benchFrames() {
  const rivals = [aiSdk, agUi]
  const [small = 0, , large = 0] = LOADS
  const figures = await measure([
    ...LOADS.map((count) => subject(ours, count, large)),
    ...rivals.map((rival) => subject(rival, small, 10 * small)),
    ...rivals.map((rival) => ({ ...subject(rival, large, large), every: isQuick ? 3 : 7 })),
  ])
  printTable(
    'client: a frame, from bytes to notification (µs of CPU)',
    figures.map(({ name, ns, first }) => ({
      client: name,
      µs: ns / 1000,
      'first µs': first / 1000,
    })),
  )
  const perFrame = nsOf(figures, label(ours, large))
  expectRatio('client: frame 100k / 1k', perFrame / nsOf(figures, label(ours, small)), 1.3)
  for (const rival of rivals) {
    const theirs = nsOf(figures, label(rival, large))
    expectRatio(`client: frame at 100k / ${rival.name}`, perFrame / theirs, 1)
  }
}

/** What a page imports of each client, and the peer dependency it already has. */
const PAGES = {
  'turnstream/client': `export { createClient } from '${clientFile}'`,
  'turnstream/client with share': `export { createClient } from '${clientFile}'; export { shareConnections } from '${shareFile}'`,
  'fetch-event-source': "export { fetchEventSource } from '@microsoft/fetch-event-source'",
  'eventsource-client': "export { createEventSource } from 'eventsource-client'",
  partysocket: "export { WebSocket } from 'partysocket'",
  'durable-streams client': "export { DurableStream } from '@durable-streams/client'",
  'AI SDK useChat': "export { useChat } from '@ai-sdk/react'",
  'AG-UI HttpAgent': "export { HttpAgent } from '@ag-ui/client'",
}

/** @param {string} page @returns {Promise<number>} bytes */
async function bundledSize(page) {
  const { outputFiles } = await esbuild.build({
    stdin: { contents: page, resolveDir: import.meta.dirname },
    ...{ bundle: true, minify: true, write: false, format: 'esm', platform: 'browser' },
    ...{
      target: 'es2023',
      external: ['react', 'react-dom'],
      legalComments: 'none',
      logLevel: 'error',
    },
  })
  return gzipSync(outputFiles[0].contents, { level: 9 }).length
}

async function benchSizes() {
  const rows = []
  for (const [client, page] of Object.entries(PAGES)) {
    rows.push({ client, KB: (await bundledSize(page)) / 1024 })
  }
  printTable('client: what a page loads (KB, minified and compressed)', rows)
  expectRatio('client: KB of turnstream/client', rows[0]?.KB ?? Number.NaN, 5.5, 5)
}

export async function benchClient() {
  await benchSizes()
  await benchFrames()
}
