import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../../test/case-count.ts'
import {
  type ProviderRequest,
  ResponseStream,
  type StreamEventPayload,
} from '../../../../core/src/index.ts'
import type { Provider } from '../../../src/index.ts'
import {
  type ConfiguredProvider,
  createGateway,
  type Gateway,
  MemoryLog,
  Providers,
} from '../../../src/server.ts'
import { UNLIMITED } from '../unlimited.ts'

/*
 * Where a prompt may go (V1): any set of providers, any wish, every door. What the server does is compared
 * with a second statement of the rule, and with what the providers received.
 */

const KINDS = ['openai', 'anthropic', 'gemini', 'openai-compatible', 'scripted']
const IDS = [...KINDS, 'groq', 'router', 'local']
const MODELS = ['gpt-5', 'claude', 'llama', 'meta/llama', 'openai/gpt-oss', 'groq/x', 'a/b/c', 'm']

interface Setup {
  readonly id: string
  readonly models: readonly string[] | 'any'
  readonly defaultModel: string
  readonly unlisted: boolean
}

interface Wish {
  readonly model?: string
  readonly providerId?: string
}

const setups: fc.Arbitrary<Setup[]> = fc.uniqueArray(
  fc.record({
    id: fc.constantFrom(...IDS),
    models: fc.oneof(
      { weight: 2, arbitrary: fc.uniqueArray(fc.constantFrom(...MODELS), { maxLength: 4 }) },
      { weight: 1, arbitrary: fc.constant('any' as const) },
    ),
    defaultModel: fc.constantFrom(...MODELS),
    unlisted: fc.nat(4).map((dice) => dice === 0),
  }),
  { minLength: 1, maxLength: 4, selector: ({ id }) => id },
)

function misspelt(name: string, at: number, how: number): string {
  const place = at % name.length
  const rest = name.slice(place + 1)
  if (how === 0) return name.slice(0, place) + rest || 'x'
  if (how === 1) return `${name.slice(0, place)}${name[place]?.toUpperCase()}${rest}`
  if (how === 2) return `${name.slice(0, place)}-${name.slice(place)}`
  return name
}

const written = (names: readonly string[]) =>
  fc
    .tuple(fc.constantFrom(...names), fc.nat(30), fc.nat(9))
    .map(([name, at, how]) => misspelt(name, at, how))

const models: fc.Arbitrary<string> = fc.oneof(
  written(MODELS),
  written(IDS),
  fc.tuple(written(IDS), written(MODELS)).map(([id, model]) => `${id}/${model}`),
  written(IDS).map((id) => `${id}/`),
  written(MODELS).map((model) => `/${model}`),
  fc.string({ minLength: 1, maxLength: 12 }),
)

const wishes: fc.Arbitrary<Wish> = fc.record(
  { model: models, providerId: written(IDS) },
  { requiredKeys: [] },
)

/** The rule in the words of the decision: who gets the prompt, and with which model. */
function permitted(all: readonly Setup[], { model, providerId }: Wish): string | undefined {
  const send = (to: Setup, name: string) => `${to.id} ${name === '' ? to.defaultModel : name}`
  if (providerId !== undefined) {
    const to = all.find(({ id }) => id === providerId)
    return to && send(to, model?.replace(new RegExp(`^${to.id}/`), '') ?? '')
  }
  if (model === undefined) return all[0] && send(all[0], '')
  for (const each of all) {
    if (model.startsWith(`${each.id}/`)) return send(each, model.slice(each.id.length + 1))
  }
  for (const each of all) {
    const isListed =
      each.defaultModel === model || (each.models !== 'any' && each.models.includes(model))
    if (isListed && (each === all[0] || !each.unlisted)) return send(each, model)
  }
  const before = model.split('/', 1)[0]?.toLowerCase() ?? ''
  if ([...KINDS, ...all.map(({ id }) => id)].includes(before)) return undefined
  const to = all.find((each) => each.models === 'any')
  return to && send(to, model)
}

/** Answers everything at once, and keeps what it was asked. */
function recorder(id: string, received: string[]): Provider {
  return {
    id,
    stream({ model, input }: ProviderRequest) {
      const last = input.at(-1)
      received.push(`${id} ${model} ${last?.type === 'message' ? last.content : '?'}`)
      const payloads: StreamEventPayload[] = [
        {
          type: 'response_start',
          response_id: 'x',
          turn_id: 't',
          thread_id: 'h',
          model_id: model,
          provider_id: id,
          created_at: 0,
        },
        { type: 'response_done', response_id: 'x', status: 'complete', finish_reason: 'stop' },
      ]
      return ResponseStream.fromEvents(payloads)
    },
  }
}

interface Told {
  readonly status: number
  readonly code?: string
}

async function post(
  gateway: Gateway,
  path: string,
  body: object,
): Promise<Told & { text: string }> {
  const response = await gateway.app.request(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (response.ok) return { status: response.status, text }
  return { status: response.status, code: JSON.parse(text).error.code, text }
}

/** Each resolves when the turn has ended, or was refused. */
const DOORS: Record<
  string,
  {
    accepted: number
    code: string
    ask: (gateway: Gateway, wish: Wish, prompt: string) => Promise<Told>
  }
> = {
  submit: {
    accepted: 202,
    code: 'MODEL_UNKNOWN',
    async ask(gateway, wish, prompt) {
      const told = await post(gateway, '/api/v2/submit', { ...wish, prompt })
      if (told.status !== 202) return told
      const { runId } = JSON.parse(told.text) as { runId: string }
      await (await gateway.app.request(`/api/v2/stream/${runId}`)).text()
      return told
    },
  },
  'thread turn': {
    accepted: 200,
    code: 'MODEL_UNKNOWN',
    ask: (gateway, wish, prompt) =>
      post(gateway, `/xapi/threads/${prompt}/turn`, { ...wish, prompt }),
  },
  chat: {
    accepted: 200,
    code: 'model_not_found',
    ask: (gateway, { model }, content) =>
      post(gateway, '/v1/chat/completions', { model, messages: [{ role: 'user', content }] }),
  },
  'streamed chat': {
    accepted: 200,
    code: 'model_not_found',
    ask: (gateway, { model }, content) => {
      const messages = [{ role: 'user', content }]
      return post(gateway, '/v1/chat/completions', { model, messages, stream: true })
    },
  },
}

async function threadsIn(log: MemoryLog): Promise<number> {
  return (await log.listThreads({ limit: 200 })).items.length
}

/** What the doors did that the rule does not allow. */
async function faultsOf(all: readonly Setup[], asked: readonly Wish[]): Promise<string[]> {
  const received: string[] = []
  const log = new MemoryLog()
  const configured = all.map(
    ({ id, ...setup }): ConfiguredProvider => ({ provider: recorder(id, received), ...setup }),
  )
  const gateway = createGateway({
    log,
    instance: 'test',
    providers: new Providers(configured),
    limits: UNLIMITED,
    shutdownGraceMs: 0,
  })
  const faults: string[] = []
  for (const [at, wish] of asked.entries()) {
    for (const [name, door] of Object.entries(DOORS)) {
      const isChat = name.endsWith('chat')
      if (isChat && (wish.model === undefined || wish.providerId !== undefined)) continue
      const prompt = `${name.replace(' ', '-')}-${at}`
      const to = permitted(all, wish)
      const before = await threadsIn(log)
      received.length = 0
      const { status, code } = await door.ask(gateway, wish, prompt)
      const got = { status, code, received: [...received], turns: (await threadsIn(log)) - before }
      const due =
        to === undefined
          ? { status: 404, code: door.code, received: [], turns: 0 }
          : { status: door.accepted, code: undefined, received: [`${to} ${prompt}`], turns: 1 }
      if (JSON.stringify(got) !== JSON.stringify(due)) {
        faults.push(`${name} ${JSON.stringify(wish)}: ${JSON.stringify({ got, due })}`)
      }
    }
  }
  await gateway.close()
  return faults
}

describe('V1 the provider of a prompt', () => {
  test('is the same on every route for every configuration and request', async () => {
    const asked = fc.array(wishes, { minLength: 1, maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(setups, asked, async (all, each) => {
        expect(await faultsOf(all, each)).toEqual([])
      }),
      { numRuns: caseCount(40) },
    )
  }, 120_000)

  test('the reference implementation can tell right from wrong', () => {
    const openai = { id: 'openai', models: ['gpt-5'], defaultModel: 'gpt-5', unlisted: false }
    const router = { id: 'router', models: 'any', defaultModel: 'llama', unlisted: false } as const
    const rows: [Setup[], Wish, string | undefined][] = [
      [[openai], {}, 'openai gpt-5'],
      [[openai], { model: 'gpt-5' }, 'openai gpt-5'],
      [[openai], { model: 'gpt-6' }, undefined],
      [[openai], { model: 'openai/gpt-6' }, 'openai gpt-6'],
      [[openai], { model: 'anthropic/claude' }, undefined],
      [[openai], { providerId: 'anthropic' }, undefined],
      [[openai, router], { model: 'meta/llama' }, 'router meta/llama'],
      [[openai, router], { model: 'anthropic/claude' }, undefined],
      [[openai, router], { model: 'Anthropic/claude' }, undefined],
      [[openai, router], { model: 'router/anthropic/claude' }, 'router anthropic/claude'],
      [[router], { model: 'openai/gpt-5' }, undefined],
    ]
    for (const [all, wish, to] of rows) expect([wish, permitted(all, wish)]).toEqual([wish, to])
  })
})
