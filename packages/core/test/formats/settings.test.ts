/** Which settings a vendor is sent, and which it is known not to have before it is called. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import { read } from '../../../../test/repository/sources.ts'
import { buildCodexRequest } from '../../../turnstream/src/codex/request.ts'
import { CODEX_SETTINGS } from '../../../turnstream/src/codex/settings.ts'
import { createScriptedProvider } from '../../../turnstream/src/index.ts'
import { buildOpenaiChatRequest } from '../../src/formats/chat-completions/request-out.ts'
import { openaiChatSettings } from '../../src/formats/chat-completions/settings.ts'
import { buildGeminiRequest } from '../../src/formats/gemini/request-out.ts'
import { GEMINI_SETTINGS } from '../../src/formats/gemini/settings.ts'
import { buildAnthropicMessagesRequest } from '../../src/formats/messages/request-out.ts'
import { anthropicSettings } from '../../src/formats/messages/settings.ts'
import { EFFORTS } from '../../src/formats/model-traits.ts'
import { buildOpenaiResponsesRequest } from '../../src/formats/responses/request-out.ts'
import { openaiResponsesSettings } from '../../src/formats/responses/settings.ts'
import {
  applyFit,
  fitSettings,
  type VendorSettings,
  withoutSettings,
} from '../../src/formats/settings.ts'
import type { ProviderRequest, SettingName } from '../../src/index.ts'

interface Row {
  readonly settings: VendorSettings
  /** What the vendor is sent. */
  readonly build: (request: ProviderRequest) => unknown
}

const LOCAL = { baseUrl: 'http://127.0.0.1:1/v1' }

const ROWS: Record<string, Row> = {
  'openai-responses': {
    settings: openaiResponsesSettings(),
    build: (request) => buildOpenaiResponsesRequest(request).body,
  },
  'openai-chat': {
    settings: openaiChatSettings(LOCAL),
    build: (request) => buildOpenaiChatRequest(request, LOCAL).body,
  },
  'openai-chat at OpenAI': {
    settings: openaiChatSettings({}),
    build: (request) => buildOpenaiChatRequest(request, {}).body,
  },
  'anthropic-messages': {
    settings: anthropicSettings(),
    build: (request) => buildAnthropicMessagesRequest(request).body,
  },
  gemini: { settings: GEMINI_SETTINGS, build: (request) => buildGeminiRequest(request).body },
  codex: {
    settings: CODEX_SETTINGS,
    build(request) {
      const { thread, items, turn } = buildCodexRequest(request, [])
      return { thread, items, turn }
    },
  },
}

const schema = { type: 'object', properties: {} }
const tool = fc.record({
  name: fc.constantFrom('f', 'g'),
  parameters: fc.constant(schema),
  strict: fc.boolean(),
})

/** Values that ask for something else than what happens anyway. */
const settings = fc.record(
  {
    toolChoice: fc.constantFrom('auto' as const, 'none' as const),
    reasoningEffort: fc.constantFrom(...EFFORTS),
    reasoningSummary: fc.constantFrom('concise' as const, 'detailed' as const),
    thinkingBudget: fc.integer({ min: 1000, max: 3000 }),
    maxOutputTokens: fc.integer({ min: 1, max: 5000 }),
    temperature: fc.double({ min: 0, max: 2, noNaN: true }),
    topP: fc.double({ min: 0, max: 1, noNaN: true }),
    topK: fc.integer({ min: 1, max: 500 }),
    stop: fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 4 }),
    responseFormat: fc.constantFrom(
      { type: 'json_object' as const },
      { type: 'json_schema' as const, name: 'n', schema },
    ),
    parallelToolCalls: fc.constant(false),
    seed: fc.integer(),
    frequencyPenalty: fc.double({ min: -2, max: 2, noNaN: true }),
    presencePenalty: fc.double({ min: -2, max: 2, noNaN: true }),
    logitBias: fc.constant({ 50256: -100 }),
    verbosity: fc.constantFrom('low' as const, 'high' as const),
    serviceTier: fc.constantFrom('auto', 'default', 'flex'),
    user: fc.string({ minLength: 1 }),
    promptCacheKey: fc.string({ minLength: 1 }),
    promptCache: fc.constantFrom('5m' as const, '1h' as const),
  },
  { requiredKeys: [] },
)

const OF_ITEMS: ReadonlySet<SettingName> = new Set(['name', 'compaction', 'longCallIds'])
const PROMPT = { type: 'message', id: 'u', origin: 'user', content: 'Hi' } as const
const request = fc
  .tuple(settings, fc.array(tool, { minLength: 1, maxLength: 2 }))
  .map(([given, tools]): ProviderRequest => ({ model: 'm', input: [PROMPT], tools, ...given }))

function givenNames({ tools = [], ...rest }: ProviderRequest): SettingName[] {
  const names = Object.keys(rest).filter((name) => !['model', 'input', 'toolChoice'].includes(name))
  return [
    ...(names as SettingName[]),
    ...(tools.some(({ strict }) => strict) ? ['strict' as const] : []),
  ]
}

describe.each(Object.entries(ROWS))('%s', (_vendor, { settings: table, build }) => {
  const text = (asked: ProviderRequest) => JSON.stringify(build(asked))

  test('is sent every setting that it has, and no other', () => {
    fc.assert(
      fc.property(request, (asked) => {
        const fit = fitSettings(table, asked)
        const taken = applyFit(asked, fit)
        const body = text(taken)
        for (const name of givenNames(taken)) {
          // Without tools or a choice of them there is nothing to call in parallel.
          if (name === 'parallelToolCalls' && taken.toolChoice === 'none') continue
          expect([name, body]).not.toEqual([name, text(withoutSettings(taken, [name]))])
        }
        const refused = fit.unsupported.filter((name) => !OF_ITEMS.has(name))
        const isRefused = expect.objectContaining({ code: 'OPTION_INVALID' })
        if (refused.length === 0) expect(text(asked)).toBe(body)
        else expect(() => build(asked)).toThrow(isRefused)
      }),
      { numRuns: caseCount(500) },
    )
  })

  test('is sent names of messages if it has them', () => {
    const isMissing = fitSettings(table, { model: 'm' }).unsupported.includes('name')
    const said = { ...PROMPT, id: 'a', origin: 'agent', name: 'Bob' } as const
    const body = text({ model: 'm', input: [{ ...PROMPT, name: 'Ann' }, said, PROMPT] })
    for (const name of ['Ann', 'Bob']) expect(body.includes(name)).toBe(!isMissing)
  })
})

test('a recording accepts every setting', async () => {
  await fc.assert(
    fc.asyncProperty(request, async (asked) => {
      let seen: unknown
      const recordings = { m: (given: ProviderRequest) => ((seen = given), []) }
      const provider = createScriptedProvider({ recordings, speed: Infinity })
      expect(provider).not.toHaveProperty('unsupported')
      await provider.stream(asked, { runId: 'r', turnId: 't', threadId: 'h' }).toArray()
      expect(seen).toEqual(asked)
    }),
    { numRuns: caseCount(20) },
  )
})

const SAMPLE: Required<Omit<ProviderRequest, 'model' | 'input' | 'toolChoice' | 'thinkingBudget'>> =
  {
    tools: [{ name: 'f', parameters: schema, strict: true }],
    reasoningEffort: 'low',
    thinking: { type: 'enabled', budgetTokens: 2000, display: 'omitted' },
    reasoningSummary: 'concise',
    maxOutputTokens: 9000,
    temperature: 1,
    topP: 1,
    stop: ['x'],
    responseFormat: { type: 'json_schema', name: 'n', schema },
    parallelToolCalls: false,
    topK: 5,
    seed: 1,
    frequencyPenalty: 1,
    presencePenalty: 1,
    logitBias: { 1: 1 },
    verbosity: 'low',
    serviceTier: 'default',
    user: 'u',
    promptCacheKey: 'k',
    promptCache: '5m',
  }

test('docs/adapters.md lists what each vendor has', () => {
  const [head = [], , ...rows] = tableAfter('| setting |')
  const vendors = head.slice(2).map((name) => name.replaceAll('`', ''))
  expect(vendors).toEqual(Object.keys(ROWS).filter((name) => !name.includes(' ')))
  const documented = rows.flatMap(([names = '', , ...cells]) =>
    [...names.matchAll(/`(\w+)`/g)].flatMap(([, name = '']) =>
      vendors.map((vendor, at) => `${vendor} ${name} ${cells[at] !== 'no'}`),
    ),
  )
  const actual = vendors.flatMap((vendor) => {
    const table = ROWS[vendor]?.settings
    if (table === undefined) return []
    return Object.keys(table).map((name) => {
      const one = sampleOf(name as SettingName)
      const isMissing = fitSettings(table, one).unsupported.includes(name as SettingName)
      return `${vendor} ${name} ${!isMissing}`
    })
  })
  expect(documented.toSorted()).toEqual(actual.toSorted())
})

/** A request with one setting. */
function sampleOf(name: SettingName): ProviderRequest {
  const { tools } = SAMPLE
  const base = { model: 'm', input: [PROMPT] }
  if (name === 'name' || name === 'compaction' || name === 'longCallIds') return base
  if (name === 'strict') return { ...base, tools }
  if (name === 'thinkingBudget') return { ...base, thinkingBudget: 2000 }
  return { ...base, [name]: SAMPLE[name] }
}

function tableAfter(start: string): string[][] {
  const text = read('docs/adapters.md')
  const lines = text.slice(text.indexOf(start)).split('\n')
  const end = lines.findIndex((line) => !line.startsWith('|'))
  return lines.slice(0, end).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}
