/**
 * What SDKs make of the answers of every vendor, through the API that they use by default.
 * @module-tag slow
 */

import { describe, expect, test, vi } from 'vitest'
import type { ReducedResponse } from '../../../../core/src/index.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { isInputItem } from '../../../../core/src/protocol/item-ids.ts'
import { type Answer, sse } from '../../providers/vendor-server.ts'
import { fixtures, stage, type VendorName } from '../../server/openai/stage.ts'
import { SIGNING_VENDORS } from '../../server/signing-vendors.ts'
import { startServer } from '../../server/support.ts'
import { type RunScenario, startSdk } from './process.ts'

vi.setConfig({ testTimeout: 120_000 })

const openai = startSdk('openai')
const anthropic = startSdk('anthropic')
const aiSdk = startSdk('ai-sdk')
const langchain = startSdk('langchain')
const agents = startSdk('agents')

interface Client {
  readonly name: string
  readonly run: RunScenario
  readonly scenario?: string
  readonly options?: object
  /** What it calls the ends of an answer. */
  readonly finishes?: Record<'text' | 'calls' | 'length', string> & { readonly refusal: string[] }
  /** Whether it leaves reasoning out, at least of models that it does not know. */
  readonly hidesReasoning?: true
}

const RESPONSES = {
  text: 'completed',
  calls: 'completed',
  refusal: ['completed', 'content_filter'],
  length: 'max_output_tokens',
}
const CHAT = {
  text: 'stop',
  calls: 'tool_calls',
  refusal: ['stop', 'content_filter'],
  length: 'length',
}
const MESSAGES = { text: 'end_turn', calls: 'tool_use', refusal: ['refusal'], length: 'max_tokens' }
const AI_SDK = { text: 'stop', calls: 'tool-calls', refusal: ['content-filter'], length: 'length' }

const CLIENTS: readonly Client[] = [
  { name: 'openai, Responses', run: openai, finishes: RESPONSES },
  { name: 'openai, Responses without stream', run: openai, scenario: 'whole', finishes: RESPONSES },
  {
    name: 'openai, Chat Completions',
    run: openai,
    scenario: 'chat',
    finishes: CHAT,
    hidesReasoning: true,
  },
  { name: 'anthropic', run: anthropic, finishes: MESSAGES },
  { name: 'anthropic without stream', run: anthropic, scenario: 'whole', finishes: MESSAGES },
  { name: 'AI SDK, Responses', run: aiSdk, finishes: AI_SDK },
  { name: 'AI SDK, Messages', run: aiSdk, options: { api: 'messages' }, finishes: AI_SDK },
  { name: 'LangChain', run: langchain, hidesReasoning: true },
]

/** The fixture of each vendor. */
type Recorded = Record<VendorName, string>

function same(name: string): Recorded {
  return {
    'openai-responses': name,
    'anthropic-messages': name,
    'openai-chat': name,
    gemini: name,
  }
}

const ANSWERS = {
  text: same('text'),
  reasoning: {
    'openai-responses': 'reasoning-text',
    'anthropic-messages': 'thinking',
    'openai-chat': 'reasoning-content',
    gemini: 'thoughts',
  },
  calls: {
    'openai-responses': 'tool-calls-parallel',
    'anthropic-messages': 'tool-calls-parallel',
    'openai-chat': 'parallel-calls-interleaved',
    gemini: 'parallel-calls',
  },
  refusal: { ...same('refusal'), gemini: 'safety' },
  length: {
    'openai-responses': 'incomplete-length',
    'anthropic-messages': 'max-tokens',
    'openai-chat': 'length',
    gemini: 'max-tokens',
  },
} satisfies Record<string, Recorded>

const FAILURES = {
  'an error in the middle': {
    'openai-responses': 'failed',
    'anthropic-messages': 'error-overloaded',
    'openai-chat': 'finish-is-error',
    gemini: 'error-in-the-middle',
  },
  'a truncated stream': {
    'openai-responses': 'truncated-in-text',
    'anthropic-messages': 'truncated-in-text',
    'openai-chat': 'truncated-text',
    gemini: 'truncated-text',
  },
} satisfies Record<string, Recorded>

const CALL: Recorded = { ...same('tool-call'), gemini: 'function-call' }
const VENDORS = Object.keys(ANSWERS.text) as VendorName[]
const KINDS = Object.keys(ANSWERS) as (keyof typeof ANSWERS)[]

describe.each(CLIENTS)('$name', ({ run, scenario = 'answer', options, ...client }) => {
  describe.each(VENDORS)('%s', (vendor) => {
    const answerTo = async (recorded: Recorded) => {
      const { server } = await stage(vendor, fixtures(vendor, recorded[vendor]))
      const outcome = await run(scenario, { url: server.url, ...options })
      return { outcome, stored: await lastAnswer(server.log) }
    }

    test.each(KINDS)('%s', async (kind) => {
      const { outcome, stored } = await answerTo(ANSWERS[kind])
      expect(outcome.error).toBeUndefined()
      const { text, reasoning, calls } = stored
      expect(outcome.result.text).toBe(text)
      if (!client.hidesReasoning) expect(outcome.result.reasoning).toBe(reasoning)
      // Some list calls in the order of their ends.
      expect(outcome.result.calls).toHaveLength(calls.length)
      expect(outcome.result.calls).toEqual(expect.arrayContaining(calls))
      if (client.finishes === undefined) return
      const finish = client.finishes[kind === 'reasoning' ? 'text' : kind]
      expect([finish].flat()).toContain(outcome.result.finish)
    })

    test.each(Object.entries(FAILURES))('%s is an error', async (_title, recorded) => {
      const { outcome } = await answerTo(recorded)
      expect(outcome.result).toBeUndefined()
      expect(outcome.error?.message).not.toBe('')
    })
  })
})

const LOOPS: readonly Client[] = [
  { name: 'openai', run: openai },
  { name: 'anthropic', run: anthropic },
  { name: 'AI SDK, Responses', run: aiSdk },
  { name: 'AI SDK, Messages', run: aiSdk, options: { api: 'messages' } },
  { name: 'LangChain', run: langchain },
  { name: 'Agents SDK', run: agents },
]

describe.each(LOOPS)('a tool loop of $name', ({ run, options }) => {
  test.each(VENDORS)('with %s', async (vendor) => {
    const answers = fixtures(vendor, CALL[vendor], 'text')
    const { server, asked, vendor: upstream } = await stage(vendor, answers)
    const { result, error } = await run('loop', { url: server.url, ...options })
    expect(error).toBeUndefined()
    expect(result.calls).toHaveLength(1)
    expect(result.calls[0].name).toBe('get_weather')
    expect(result.final ?? result.text).toBe((await lastAnswer(server.log)).text)
    expect(upstream.bodies).toHaveLength(2)
    expect(JSON.stringify(asked())).toContain('It is sunny.')
  })
})

/** How often a text occurs in what a vendor was asked. */
function countOf(asked: unknown, text: string): number {
  return JSON.stringify(asked).split(text).length - 1
}

describe.each([true, false])('a message thread of anthropic, with stream: %j', (stream) => {
  test.each(VENDORS)('sends %s the complete history in every round of tools', async (vendor) => {
    const call = CALL[vendor]
    const answers = fixtures(vendor, call, call, call, 'text')
    const { server, asked, vendor: upstream } = await stage(vendor, answers)
    const { result, error } = await anthropic('runner', { url: server.url, stream })
    expect(error).toBeUndefined()
    expect(result.text).toBe((await lastAnswer(server.log)).text)
    expect(upstream.bodies).toHaveLength(4)
    const results = [0, 1, 2, 3].map((index) => countOf(asked(index), 'It is sunny.'))
    expect(results).toEqual([0, 1, 2, 3])
  })

  test.each([{}, { unsupportedRequestBehavior: 'continue_unthreaded' }])(
    'sends every prompt in every turn: %j',
    async (more) => {
      const vendor = 'anthropic-messages'
      const { server, asked, vendor: upstream } = await stage(vendor, fixtures(vendor, 'text'))
      const prompts = ['One', 'Two', 'Three']
      const options = { url: server.url, stream, prompts, more }
      const { result, error } = await anthropic('thread', options)
      expect(error).toBeUndefined()
      expect(result.text).toBe((await lastAnswer(server.log)).text)
      expect(upstream.bodies).toHaveLength(3)
      expect(prompts.map((prompt) => countOf(asked(), `"${prompt}"`))).toEqual([1, 1, 1])
      expect(asked().messages).toHaveLength(5)
      expect(asked().tools).toHaveLength(1)
    },
  )
})

test('LangChain sends reasoning back by its id, and OpenAI gets the encrypted content', async () => {
  const said = { thought: 'Hm.', text: 'Hi.', blob: 'the blob' }
  const call = {
    id: 'fc_1',
    call_id: 'call_1',
    name: 'get_weather',
    arguments: '{"city":"Berlin"}',
  }
  const item = { type: 'function_call', ...call }
  const frames: unknown[] = SIGNING_VENDORS.openai.frames(said)
  frames.splice(-1, 0, { type: 'response.output_item.done', output_index: 2, item })
  const answers: Answer = (response, request, count) => {
    const first = sse(...frames.map((frame) => JSON.stringify(frame)))
    const answer = count === 1 ? first : fixtures('openai-responses', 'text')
    return answer(response, request, count)
  }
  const { server, asked } = await stage('openai-responses', answers)
  const { error } = await langchain('loop', { url: server.url })
  expect(error).toBeUndefined()
  expect(countOf(asked(), 'the blob')).toBe(1)
})

describe.each(VENDORS)('Responses of %s, with the official client', (vendor) => {
  test.each(['text', 'reasoning', 'calls', 'length'] as const)(
    '%s is resumed after any event',
    async (kind) => {
      const { server } = await stage(vendor, fixtures(vendor, ANSWERS[kind][vendor]))
      const { result, error } = await openai('resume', { url: server.url })
      expect(error).toBeUndefined()
      const { text, calls } = await lastAnswer(server.log)
      expect(result.responses).toEqual([{ isSuffix: true, text, calls }])
    },
  )

  test('a background response is polled to its end', async () => {
    const { server } = await stage(vendor, fixtures(vendor, 'text'))
    const { result } = await openai('background', { url: server.url })
    expect(result.statuses[0]).toBe('queued')
    expect(result.statuses.at(-1)).toBe('completed')
    expect(result.text).toBe((await lastAnswer(server.log)).text)
  })
})

test('a response is cancelled in the middle', async () => {
  const server = await startServer()
  const { result, error } = await openai('cancel', { url: server.url })
  expect(error).toBeUndefined()
  expect(result.statuses).toEqual(['cancelled', 'cancelled', 'cancelled'])
  expect(result.types.at(-1)).toBe('response.incomplete')
})

test('a structured answer is parsed', async () => {
  const server = await startServer()
  const next = server.held.nextCall()
  const parsed = openai('parse', { url: server.url })
  const held = await next
  expect(held.request.responseFormat).toMatchObject({ type: 'json_schema', name: 'answer' })
  held.say('{"answer":')
  held.say('42}')
  held.finish()
  expect((await parsed).result).toEqual({ answer: 42 })
})

test('a response in progress is joined in the middle', async () => {
  const server = await startServer()
  const next = server.held.nextCall()
  const created = await fetch(`${server.url}/v1/responses`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'held/m', input: 'Hi', background: true }),
  })
  const { id } = (await created.json()) as { id: string }
  const held = await next
  held.say('Hello')
  const joined = openai('join', { url: server.url, id })
  held.say(', world.')
  held.finish()
  expect((await joined).result.text).toBe('Hello, world.')
})

/** What the newest turn of a store says. */
async function lastAnswer(log: TurnLog) {
  const [thread] = (await log.listThreads({ limit: 1 })).items
  const turns = await log.listTurns(thread?.threadId ?? '', { first: 'newest', limit: 1 })
  const json = await log.getResponse(turns.items[0]?.turnId ?? '')
  const { id, output_items: items } = JSON.parse(json ?? '') as ReducedResponse
  const said = items.filter((item) => !isInputItem(id, item.id))
  const textOf = (name: 'message' | 'reasoning') => {
    const texts = said.map((item) => {
      return item.type === name && item.origin !== 'user' ? item.content : ''
    })
    return texts.join('')
  }
  const calls = said.flatMap((item) =>
    item.type === 'function_call' ? [{ name: item.name, input: JSON.parse(item.arguments) }] : [],
  )
  return { text: textOf('message'), reasoning: textOf('reasoning'), calls }
}
