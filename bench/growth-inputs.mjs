// What callers, vendors and tools choose the size of, for growth.mjs.
import { createServer } from 'vite'
import {
  ArgumentsChecker,
  CassetteDecoder,
  compareCassettes,
  createFrameReader,
  turnstream,
} from './turnstream.mjs'
import { createGateway, openEmbeddedLog } from './turnstream-server.mjs'

/** @typedef {import('../packages/turnstream/src/index.ts').StreamEvent} StreamEvent */
/** @typedef {import('../packages/turnstream/src/index.ts').StreamEventPayload} StreamEventPayload */
/** @typedef {import('../packages/turnstream/src/server.ts').Gateway} Gateway */

/**
 * @typedef {object} GrowingInput
 * @property {string} name
 * @property {number} size Ten times as much must be within all limits.
 * @property {(size: number) => Promise<() => unknown>} prepare
 */

const UNLIMITED = {
  submitsPerMinute: Infinity,
  maxRunningTurns: Infinity,
  maxOpenStreams: Infinity,
  maxConcurrentReads: Infinity,
  maxUnsentBytes: Infinity,
  maxThreads: Infinity,
}

/** @template T @param {number} count @param {(at: number) => T} make @returns {T[]} */
function times(count, make) {
  return Array.from({ length: count }, (_, at) => make(at))
}

/** @param {number} count @param {(at: number) => unknown} make */
function fields(count, make) {
  return Object.fromEntries(times(count, (at) => [`field${at}`, make(at)]))
}

// Answers. The name of a model says what it sends: `words-1000`.

/** @type {Record<string, (size: number) => StreamEventPayload[]>} */
const ANSWERS = {
  words: (size) =>
    message(
      'a',
      times(size, () => 'word '),
    ),
  kilobytes: (size) =>
    message(
      'a',
      times(size, () => 'x'.repeat(1024)),
    ),
  items: (size) => times(size, (at) => message(`i${at}`, ['word '])).flat(),
  arguments: (size) => call('c', ['{"list":[', '0', ...times(size, () => ',0'), ']}']),
  calls: (size) => times(size, (at) => call(`c${at}`, ['{}'])).flat(),
}

/** @param {string} id @param {string[]} deltas @returns {StreamEventPayload[]} */
function message(id, deltas) {
  const content = deltas.join('')
  return [
    { type: 'item_start', item_id: id, item_type: 'message', origin: 'agent' },
    ...deltas.map((delta_content) => delta(id, delta_content)),
    {
      type: 'item_done',
      item_id: id,
      final_item: { type: 'message', id, origin: 'agent', content },
    },
  ]
}

/** @param {string} id @param {string[]} deltas @returns {StreamEventPayload[]} */
function call(id, deltas) {
  const made = { name: 'look', call_id: `call-${id}` }
  const final_item = { type: /** @type {const} */ ('function_call'), id, ...made }
  return [
    { type: 'item_start', item_id: id, item_type: 'function_call', ...made },
    ...deltas.map((delta_content) => delta(id, delta_content)),
    { type: 'item_done', item_id: id, final_item: { ...final_item, arguments: deltas.join('') } },
  ]
}

/** @param {string} item_id @param {string} delta_content @returns {StreamEventPayload} */
function delta(item_id, delta_content) {
  return { type: 'item_delta', item_id, delta_content }
}

/** @param {StreamEventPayload} payload @param {number} at */
function toEvent(payload, at) {
  const event = { event_id: `e${at}`, timestamp: 0, trace_context: { traceparent: '' } }
  return /** @type {StreamEvent} */ ({ ...event, run_id: 'r', type: payload.type, payload })
}

/** @param {string} model @returns {StreamEvent[]} */
function recordingOf(model) {
  const [kind = '', size] = model.split('-')
  const ids = { response_id: 'x', turn_id: 't', thread_id: 'h' }
  const names = { model_id: model, provider_id: 'growing', created_at: 0 }
  /** @type {StreamEventPayload[]} */
  const payloads = [
    { type: 'response_start', ...ids, ...names },
    ...(ANSWERS[kind]?.(Number(size)) ?? []),
    { type: 'response_done', response_id: 'x', status: 'complete', finish_reason: 'stop' },
  ]
  return payloads.map(toEvent)
}

// Requests. Each is answered by one word.

const MODEL = 'words-1'
const ANSWER_SIZES = { words: 1000, kilobytes: 100, items: 150, arguments: 2000, calls: 150 }
const MODELS = [
  MODEL,
  ...Object.entries(ANSWER_SIZES).flatMap(([kind, size]) => [
    `${kind}-${size}`,
    `${kind}-${size * 10}`,
  ]),
]
const PIXEL = 'iVBORw0KGgoA'

/** @type {Record<string, [path: string, size: number, body: (size: number) => object, kind?: 'refused' | 'session']>} */
const REQUESTS = {
  'chat completions: messages': [
    '/v1/chat/completions',
    200,
    (size) => ({ messages: times(size, () => ({ role: 'user', content: 'Hi' })) }),
  ],
  'chat completions: characters': [
    '/v1/chat/completions',
    100_000,
    (size) => chat('x'.repeat(size)),
  ],
  'chat completions: escaped characters': [
    '/v1/chat/completions',
    30_000,
    (size) => chat('"\n\\é'.repeat(size / 4)),
  ],
  'chat completions: unknown fields': [
    '/v1/chat/completions',
    490,
    (size) => ({ ...chat('Hi'), ...fields(size, () => 1) }),
  ],
  'chat completions: too many values': [
    '/v1/chat/completions',
    300_000,
    (size) => ({ ...chat('Hi'), x: times(size, () => 0) }),
    'refused',
  ],
  'chat completions: parts': [
    '/v1/chat/completions',
    100,
    (size) => chat(times(size, () => ({ type: 'text', text: 'Hi' }))),
  ],
  'chat completions: image': [
    '/v1/chat/completions',
    300_000,
    (size) => {
      const url = `data:image/png;base64,${PIXEL}${'AAAA'.repeat(size / 4)}`
      return chat([{ type: 'image_url', image_url: { url } }])
    },
  ],
  'chat completions: a tool schema': [
    '/v1/chat/completions',
    200,
    (size) => ({
      ...chat('Hi'),
      tools: [
        tool('look', { type: 'object', properties: fields(size, () => ({ type: 'string' })) }),
      ],
    }),
  ],
  'responses: items': [
    '/v1/responses',
    200,
    (size) => ({ input: times(size, () => ({ role: 'user', content: 'Hi' })) }),
  ],
  'responses: calls and outputs of one id': [
    '/v1/responses',
    200,
    (size) => ({ input: [...callsAndOutputs(size), { role: 'user', content: 'Hi' }] }),
  ],
  'responses: invalid items': [
    '/v1/responses',
    400,
    (size) => ({ input: times(size, () => ({ type: 'message', role: 'user', content: [{}, 1] })) }),
    'refused',
  ],
  'responses: tools of one name': [
    '/v1/responses',
    800,
    (size) => {
      const tools = times(size, () => ({ type: 'function', name: 'look' }))
      return { input: 'Hi', tools: [{ type: 'namespace', name: 'eyes', tools }] }
    },
  ],
  'responses: reasoning by id': [
    '/v1/responses',
    200,
    (size) => ({
      input: [
        ...times(size, (at) => ({ type: 'reasoning', id: `rs_x${at}`, summary: [] })),
        { role: 'user', content: 'Hi' },
      ],
    }),
  ],
  'responses: items that an agent returns': [
    '/v1/responses',
    200,
    (size) => ({ input: ['user', ...times(size, () => 'assistant')].map(said) }),
    'session',
  ],
  'responses: unpaired surrogates': [
    '/v1/responses',
    900,
    (size) => ({ input: String.fromCharCode(0xd800).repeat(size) }),
  ],
  'messages: messages': [
    '/v1/messages',
    200,
    (size) => ({
      max_tokens: 9,
      messages: times(size, (at) => ({ role: at % 2 ? 'assistant' : 'user', content: 'Hi' })),
    }),
  ],
  'submit: history': [
    '/xapi/threads/{thread}/turn',
    200,
    (size) => ({
      prompt: 'Hi',
      history: times(size, () => ({ type: 'message', origin: 'user', content: 'Hi' })),
    }),
  ],
}

/** @param {string} role */
function said(role) {
  return { type: 'message', role, content: 'Hi' }
}

/** @param {unknown} content */
function chat(content) {
  return { messages: [{ role: 'user', content }] }
}

/** @param {string} name @param {object} parameters */
function tool(name, parameters) {
  return { type: 'function', function: { name, parameters } }
}

/** @param {number} size */
function callsAndOutputs(size) {
  const call_id = 'same'
  return [
    ...times(size / 2, () => ({ type: 'function_call', call_id, name: 'f', arguments: '{}' })),
    ...times(size / 2, () => ({ type: 'function_call_output', call_id, output: 'x' })),
  ]
}

/** How a finished turn is read. @type {Record<string, (turnId: string) => string>} */
const READERS = {
  'raw events': (turnId) => `/api/v2/stream/${turnId}`,
  snapshots: (turnId) => `/xapi/turns/${turnId}/stream`,
  'appended snapshots': (turnId) => `/xapi/turns/${turnId}/stream?encoding=append`,
  'a Response': (turnId) => `/v1/responses/resp_${turnId}?stream=true`,
  'a Message': (turnId) => `/v1/messages/msg_${turnId}?stream=true`,
}

class Client {
  #turns = 0
  /** @param {Gateway} gateway */
  constructor(gateway) {
    this.app = gateway.app
  }

  /** @param {string} path */
  async get(path) {
    const response = await this.app.request(path)
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    return (await response.arrayBuffer()).byteLength
  }

  /** @param {string} path @param {string} body @param {'refused' | 'session'} [kind] */
  async post(path, body, kind) {
    const thread = `thread-${(this.#turns += 1)}`
    // In a session of its own, a repeated request gets a new turn, too.
    const more = kind === 'session' ? { 'thread-id': thread } : { 'x-turnstream-reattach': 'no' }
    const headers = new Headers({ 'content-type': 'application/json', ...more })
    const init = { method: 'POST', body, headers }
    const response = await this.app.request(path.replace('{thread}', thread), init)
    await response.arrayBuffer()
    if (response.ok === (kind === 'refused')) throw new Error(`${path}: ${response.status}`)
    return response.headers
  }

  /** Runs a turn to its end. @param {string} model @param {string} [threadId] */
  async turn(model, threadId = `of-${model}-${(this.#turns += 1)}`) {
    const body = JSON.stringify({ prompt: 'Hi', model: `growing/${model}` })
    const headers = await this.post(`/xapi/threads/${threadId}/turn`, body)
    return headers.get('x-turn-id') ?? ''
  }
}

/** @param {Client} client @returns {GrowingInput[]} */
function gatewayInputs(client) {
  const requests = Object.entries(REQUESTS).map(([name, [path, size, make, kind]]) => ({
    name,
    size,
    prepare: async (/** @type {number} */ count) => {
      const body = JSON.stringify({ model: `growing/${MODEL}`, ...make(count) })
      return () => client.post(path, body, kind)
    },
  }))
  const answers = Object.entries(ANSWER_SIZES).map(([kind, size]) => ({
    name: `an answer: ${kind}`,
    size,
    prepare: async (/** @type {number} */ count) => () => client.turn(`${kind}-${count}`),
  }))
  const reads = Object.entries(READERS).map(([name, pathOf]) => ({
    name: `a replay: ${name}`,
    size: ANSWER_SIZES.words,
    prepare: async (/** @type {number} */ count) => {
      const path = pathOf(await client.turn(`words-${count}`))
      return () => client.get(path)
    },
  }))
  const history = {
    name: 'a thread: turns before a turn',
    size: 90,
    prepare: async (/** @type {number} */ count) => {
      for (let each = 0; each < count; each++) await client.turn(MODEL, `long-${count}`)
      return () => client.turn(MODEL, `long-${count}`)
    },
  }
  return [...requests, ...answers, ...reads, history]
}

/** @type {GrowingInput[]} */
const PARTS = [
  {
    name: 'arguments against a schema: faults',
    size: 5000,
    prepare: async (size) => {
      const checker = new ArgumentsChecker({ limitMs: 60_000 })
      const parameters = {
        type: 'object',
        properties: { list: { type: 'array', items: { type: 'string', format: 'email' } } },
      }
      const args = { list: times(size, (at) => at) }
      const options = { tenant: 't', signal: new AbortController().signal }
      return () => checker.check(parameters, args, JSON.stringify(args), options)
    },
  },
  {
    name: 'server-sent events: a line in small chunks',
    size: 200_000,
    prepare: async (size) => {
      const chunk = new TextEncoder().encode('data chunk')
      return () => {
        const decoder = new turnstream.SseDecoder()
        for (let each = 0; each < size / 10; each++) decoder.feed(chunk)
      }
    },
  },
  {
    name: 'a page: a frame in small chunks',
    size: 500_000,
    prepare: async (size) => {
      const chunk = 'x'.repeat(1000)
      return () => {
        const readFrames = createFrameReader()
        for (let each = 0; each < size / chunk.length; each++) readFrames(chunk)
      }
    },
  },
  {
    name: 'a cassette',
    size: 2000,
    prepare: async (size) => {
      const head = '{"format":"turnstream-cassette","version":1,"createdAt":0}\n'
      const lines = recordingOf(`words-${size}`).map((event) => JSON.stringify({ at: 1, event }))
      const bytes = new TextEncoder().encode(`${head}${lines.join('\n')}\n`)
      const read = () => {
        const decoder = new CassetteDecoder()
        decoder.feed(bytes)
        return decoder.end()
      }
      return () => compareCassettes(read(), read())
    },
  },
]

// What vendors send: as many calls as they like.

/** @type {Record<'anthropic-messages' | 'gemini' | 'openai-chat' | 'openai-responses', (size: number) => object[]>} */
const VENDOR_STREAMS = {
  'openai-chat': (size) =>
    times(size, (index) => {
      const tool_calls = [{ index, id: `c${index}`, function: { name: 'f', arguments: '{}' } }]
      return { id: 'c', choices: [{ index: 0, delta: { tool_calls } }] }
    }),
  'openai-responses': (size) => {
    const output = times(size, (at) => {
      const named = { id: `f${at}`, type: 'function_call', call_id: `c${at}`, name: 'f' }
      return { ...named, status: 'completed', arguments: '{}' }
    })
    return [
      ...output.map((item, output_index) => ({
        ...{ type: 'response.output_item.added', output_index },
        item: { ...item, arguments: '' },
      })),
      { type: 'response.completed', response: { id: 'r', status: 'completed', output } },
    ]
  },
  'anthropic-messages': (size) => [
    { type: 'message_start', message: { id: 'm', role: 'assistant', model: 'm', content: [] } },
    ...times(size, (index) => ({
      ...{ type: 'content_block_start', index },
      content_block: { type: 'tool_use', id: `t${index}`, name: 'f', input: {} },
    })),
  ],
  gemini: (size) => {
    const parts = times(size, () => ({ functionCall: { name: 'f', args: {} } }))
    return [{ candidates: [{ content: { role: 'model', parts } }] }]
  },
}

const vendorStreams = Object.entries(VENDOR_STREAMS).map(([vendor, make]) => ({
  name: `a stream of ${vendor}: calls`,
  size: 1500,
  prepare: async (/** @type {number} */ size) => {
    const text = make(size)
      .map((event) => `data: ${JSON.stringify(event)}\n\n`)
      .join('')
    const bytes = new TextEncoder().encode(text)
    const name = /** @type {keyof typeof VENDOR_STREAMS} */ (vendor)
    return async () => {
      let events = 0
      for await (const _ of turnstream.readEvents(new Blob([bytes]).stream(), name)) events += 1
      if (events < size) throw new Error(`${vendor}: only ${events} events`)
    }
  },
}))

/** Markdown of the page. @type {Record<string, [size: number, text: (size: number) => string]>} */
const MARKDOWN = {
  paragraphs: [5000, (size) => 'Some *words* and `code`.\n\n'.repeat(size)],
  'a list': [3000, (size) => '- an item\n'.repeat(size)],
  'a table': [4000, (size) => `| a | b |\n|---|---|\n${'| 1 | 2 |\n'.repeat(size)}`],
  fences: [3000, (size) => '```\na\n'.repeat(size)],
  quotes: [5000, (size) => '>'.repeat(size)],
}

/** @param {string} directory */
export async function growthInputs(directory) {
  const log = await openEmbeddedLog({ directory, sync: 'system', commitIntervalMs: 1 })
  const recordings = Object.fromEntries(MODELS.map((model) => [model, recordingOf(model)]))
  const provider = turnstream.createScriptedProvider({ id: 'growing', recordings, speed: Infinity })
  const gateway = createGateway({
    log,
    limits: UNLIMITED,
    providers: [{ provider, models: 'any', defaultModel: MODEL }],
  })
  const vite = await createServer({
    configFile: false,
    logLevel: 'error',
    server: { middlewareMode: true, watch: null, ws: false },
  })
  const { parseMarkdown } = await vite.ssrLoadModule('/web/src/markdown/document.ts')
  const { codeParts } = await vite.ssrLoadModule('/web/src/markdown/code-parts.ts')
  const { highlight } = await vite.ssrLoadModule('/web/src/markdown/highlight.ts')
  const markdown = Object.entries(MARKDOWN).map(([name, [size, make]]) => ({
    name: `markdown: ${name}`,
    size,
    prepare: async (/** @type {number} */ count) => {
      const text = make(count)
      return () => parseMarkdown(text, { isFinal: true })
    },
  }))
  const code = {
    name: 'markdown: a word of code',
    size: 5000,
    prepare: async (/** @type {number} */ count) => () => {
      for (const part of codeParts('a'.repeat(count))) highlight(part, 'ts')
    },
  }
  return {
    inputs: [...gatewayInputs(new Client(gateway)), ...PARTS, ...vendorStreams, ...markdown, code],
    close: async () => {
      await vite.close()
      await gateway.close()
      await log.close()
    },
  }
}
