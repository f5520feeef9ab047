/** Signatures and encrypted reasoning across two accounts of one vendor, through every API that shows them. */

import Anthropic from '@anthropic-ai/sdk'
import fc from 'fast-check'
import OpenAI from 'openai'
import { describe, expect, onTestFinished, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import { MemoryLog } from '../../src/server.ts'
import { type Answer, sse, startVendor, type VendorServer } from '../providers/vendor-server.ts'
import {
  type Said,
  SIGNING_VENDORS,
  type SigningName,
  type SigningVendor,
} from './signing-vendors.ts'
import { call, startServer, type TestServer } from './support.ts'

interface Account extends VendorServer {
  /** What it says next. */
  said: Said
  /** Answers the next request in place of it. */
  next: Answer | undefined
}

interface Stage {
  /** Two instances of a gateway. */
  servers: [TestServer, TestServer]
  one: Account
  two: Account
  vendor: SigningVendor
  /** The model's part of the last request to an account. */
  sentTo: (account: Account) => unknown[]
}

async function startAccount(vendor: SigningVendor, blob: string): Promise<Account> {
  const server = await startVendor((response, request, count) => {
    const answer =
      account.next ?? sse(...vendor.frames(account.said).map((each) => JSON.stringify(each)))
    account.next = undefined
    return answer(response, request, count)
  })
  const account: Account = {
    ...server,
    said: { thought: 'Hm.', text: 'Hi.', blob },
    next: undefined,
  }
  onTestFinished(() => server.close())
  return account
}

async function stage(name: SigningName): Promise<Stage> {
  const vendor: SigningVendor = SIGNING_VENDORS[name]
  const [one, two] = [
    await startAccount(vendor, 'blob of one'),
    await startAccount(vendor, 'blob of two'),
  ]
  const log = new MemoryLog()
  const start = () => {
    const more = [
      vendor.create({ id: 'one', baseUrl: one.url, maxRetries: 0 }),
      vendor.create({ id: 'two', baseUrl: two.url, maxRetries: 0 }),
    ]
    return startServer({ log, more })
  }
  const servers: Stage['servers'] = [await start(), await start()]
  const sentTo = ({ bodies }: Account) => vendor.sent(JSON.parse(bodies.at(-1) ?? '{}'))
  return { servers, one, two, vendor, sentTo }
}

/** Asks a provider, with what was said so far; returns what is said then. */
type Ask<Thread> = (server: TestServer, provider: string, thread?: Thread) => Promise<Thread>

const PROMPT = { role: 'user' as const, content: 'Go on.' }

type Message = Anthropic.MessageParam
const askMessages: Ask<Message[]> = async ({ url }, provider, thread = []) => {
  const client = new Anthropic({ apiKey: 'any', baseURL: url, maxRetries: 0 })
  const messages = [...thread, PROMPT]
  const thinking = { type: 'enabled' as const, budget_tokens: 2048 }
  const request = { model: `${provider}/m`, max_tokens: 8000, thinking, messages }
  const { content } = await client.messages.stream(request).finalMessage()
  return [...messages, { role: 'assistant', content }]
}

type Items = OpenAI.Responses.ResponseInputItem[]
type More = Partial<OpenAI.Responses.ResponseCreateParams>
const askWith =
  (more: More): Ask<Items> =>
  async ({ url }, provider, thread = []) => {
    const client = new OpenAI({ apiKey: 'any', baseURL: `${url}/v1`, maxRetries: 0 })
    const input: Items = [...thread, PROMPT]
    const reasoning = { effort: 'low', summary: 'auto' } as const
    const request = { model: `${provider}/m`, input, reasoning, ...more, stream: true as const }
    const { output } = await client.responses.stream(request).finalResponse()
    return [...input, ...(output as Items)]
  }

const askResponses = askWith({ store: false, include: ['reasoning.encrypted_content'] })
/** Its reasoning comes back with an id only. */
const askById = askWith({})

const askStored: Ask<string> = async ({ url }, provider, thread) => {
  const client = new OpenAI({ apiKey: 'any', baseURL: `${url}/v1`, maxRetries: 0 })
  const previous = thread === undefined ? {} : { previous_response_id: thread }
  const request = { model: `${provider}/m`, input: 'Go on.', ...previous }
  return (await client.responses.create(request)).id
}

const askThread: Ask<string> = async (server, providerId, threadId) => {
  const input = [{ type: 'message', origin: 'user', content: 'Go on.' }]
  const body = { providerId, input, ...(threadId !== undefined && { threadId }) }
  const { json, status } = await call(server, 'POST /api/v2/submit', { body })
  expect(status).toBe(202)
  await (await fetch(`${server.url}/api/v2/stream/${json.runId}`)).text()
  return json.threadId
}

interface Door<Thread> {
  name: string
  vendors: SigningName[]
  ask: Ask<Thread>
}

// Each with a thread of its own type.
const DOORS = [
  { name: 'messages', vendors: ['anthropic'], ask: askMessages },
  { name: 'responses', vendors: ['openai'], ask: askResponses },
  { name: 'responses by id', vendors: ['openai'], ask: askById },
  { name: 'previous responses', vendors: ['openai', 'anthropic', 'gemini'], ask: askStored },
  { name: 'threads', vendors: ['openai', 'anthropic', 'gemini'], ask: askThread },
] as unknown as Door<unknown>[]

const ROWS = DOORS.flatMap(({ name, vendors, ask }) =>
  vendors.map((vendor) => ({ name, vendor, ask })),
)

describe.each(ROWS)('$name of $vendor', ({ vendor: name, ask }) => {
  test('an account gets back what it issued, and nothing of another', async () => {
    const { servers, one, two, vendor, sentTo } = await stage(name)
    const [here, there] = servers
    const first = await ask(here, 'one')
    const second = await ask(there, 'two', first)
    expect(two.bodies[0]).not.toContain('blob of one')
    expect(two.bodies[0]).toContain('Hi.')
    const third = await ask(there, 'one', second)
    expect(one.bodies[1]).not.toContain('blob of two')
    expect(sentTo(one).slice(0, vendor.back(one.said).length)).toEqual(vendor.back(one.said))
    await ask(here, 'two', third)
    expect(two.bodies[1]).not.toContain('blob of one')
    expect(two.bodies[1]).toContain('blob of two')
  })

  test('what an account refuses is dropped without a trace in the answer', async () => {
    const { servers, one, vendor } = await stage(name)
    const [server] = servers
    const first = await ask(server, 'one')
    one.next = (response) => {
      response.writeHead(400, { 'content-type': 'application/json' })
      response.end(JSON.stringify(vendor.refusal))
    }
    await ask(server, 'one', first)
    expect(one.bodies.map((body) => body.includes('blob of one'))).toEqual([false, true, false])
    const metrics = await (await fetch(`${server.url}/metrics`)).text()
    expect(metrics).toContain('turnstream_provider_retries_total{provider="one"} 1')
    expect(server.errors).toEqual([])
  })

  const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 60 })
  test('whatever it says comes back byte for byte', async () => {
    const { servers, one, vendor, sentTo } = await stage(name)
    const [here, there] = servers
    await fc.assert(
      fc.asyncProperty(text, text, text, async (thought, said, blob) => {
        one.said = { thought, text: said, blob }
        const thread = await ask(here, 'one')
        await ask(there, 'one', thread)
        expect(sentTo(one)).toEqual(vendor.back(one.said))
      }),
      { numRuns: caseCount(40) },
    )
  })
})

test('data that did not come from here is sent, and dropped when it is refused', async () => {
  const { servers, one } = await stage('anthropic')
  const foreign = { type: 'thinking' as const, thinking: 'Hm.', signature: 'from elsewhere' }
  const thread: Message[] = [
    { role: 'user', content: 'Hello' },
    { role: 'assistant', content: [foreign, { type: 'text', text: 'Hi.' }] },
  ]
  await askMessages(servers[0], 'one', thread)
  expect(one.bodies[0]).toContain('from elsewhere')
  one.next = (response) => {
    response.writeHead(400).end(JSON.stringify(SIGNING_VENDORS.anthropic.refusal))
  }
  await askMessages(servers[0], 'one', thread)
  expect(one.bodies[1]).toContain('from elsewhere')
  expect(one.bodies[2]).not.toContain('from elsewhere')
})
