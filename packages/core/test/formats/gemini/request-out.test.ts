import { describe, expect, test } from 'vitest'
import { createGeminiProvider } from '../../../../turnstream/src/index.ts'
import { buildGeminiRequest } from '../../../src/formats/gemini/request-out.ts'
import type { OutputItem, ProviderRequest } from '../../../src/index.ts'
import { fixtureEvents, responsesOf } from '../outcome.ts'
import { translate } from './events.ts'

const user = { type: 'message', id: 'u', origin: 'user', content: 'Hi' } as const
const base: ProviderRequest = { model: 'm', input: [user] }
const tool = { name: 'add', description: 'Adds', parameters: { type: 'object' } }

const bodyOf = (request: Partial<ProviderRequest>) =>
  buildGeminiRequest({ ...base, ...request }).body

const contentsOf = (...input: OutputItem[]) => bodyOf({ input })['contents']

/** The items of a fixture, as a thread that goes on. */
function itemsOf(fixture: string): OutputItem[] {
  const responses = responsesOf(translate(fixtureEvents('gemini', fixture)))
  return responses.flatMap(({ output_items }) => output_items)
}

test('a plain request is a URL and contents', () => {
  expect(buildGeminiRequest(base)).toEqual({
    url: 'https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse',
    headers: {},
    body: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
  })
})

test('key, URL and extra headers come from the options', () => {
  const options = { baseUrl: 'http://localhost:1/', apiKey: 'key', headers: { 'x-more': 'm' } }
  expect(buildGeminiRequest({ ...base, model: 'tunedModels/a b' }, options)).toMatchObject({
    url: 'http://localhost:1/v1beta/tunedModels/a%20b:streamGenerateContent?alt=sse',
    headers: { 'x-goog-api-key': 'key', 'x-more': 'm' },
  })
})

test('the provider has its configured name', () => {
  expect(createGeminiProvider().id).toBe('gemini')
  expect(createGeminiProvider({ id: 'vertex' }).id).toBe('vertex')
})

const generation = (generationConfig: unknown) => ({ generationConfig })

describe('a parameter becomes a field of the body', () => {
  const tools = [tool]
  const schema = { type: 'object' }
  const declared = {
    tools: [
      {
        functionDeclarations: [
          { name: 'add', description: 'Adds', parametersJsonSchema: { type: 'object' } },
        ],
      },
    ],
  }
  const config = (functionCallingConfig: unknown) => ({
    ...declared,
    toolConfig: { functionCallingConfig },
  })
  const thinking = (thinkingBudget: number, includeThoughts = true) =>
    generation({ thinkingConfig: { thinkingBudget, includeThoughts } })

  const rows: [request: Partial<ProviderRequest>, fields: unknown][] = [
    [{ tools }, declared],
    [{ tools, toolChoice: 'auto' }, config({ mode: 'AUTO' })],
    [{ tools, toolChoice: 'none' }, config({ mode: 'NONE' })],
    [{ tools, toolChoice: 'required' }, config({ mode: 'ANY' })],
    [
      { tools, toolChoice: { name: 'add' } },
      config({ mode: 'ANY', allowedFunctionNames: ['add'] }),
    ],
    [{ tools: [], toolChoice: 'auto', parallelToolCalls: true, stop: [] }, {}],
    [{ maxOutputTokens: 9 }, generation({ maxOutputTokens: 9 })],
    [{ temperature: 0, topP: 0.5 }, generation({ temperature: 0, topP: 0.5 })],
    [{ stop: ['END'] }, generation({ stopSequences: ['END'] })],
    [{ thinkingBudget: 77 }, thinking(77)],
    [{ reasoningEffort: 'none' }, thinking(0, false)],
    [{ reasoningEffort: 'low' }, thinking(1024)],
    [{ reasoningEffort: 'medium' }, thinking(8192)],
    [{ reasoningEffort: 'high' }, thinking(24_576)],
    [{ responseFormat: { type: 'text' } }, {}],
    [
      { responseFormat: { type: 'json_object' } },
      generation({ responseMimeType: 'application/json' }),
    ],
    [
      { responseFormat: { type: 'json_schema', name: 'n', schema } },
      generation({ responseMimeType: 'application/json', responseJsonSchema: schema }),
    ],
  ]

  test.each(rows)('%j', (request, fields) => {
    const { contents, ...rest } = bodyOf(request)
    expect(contents).toEqual(bodyOf({})['contents'])
    expect(rest).toEqual(fields)
  })
})

describe('unsupported parameters are refused by name', () => {
  const rows: [request: Partial<ProviderRequest>, message: RegExp][] = [
    [{ parallelToolCalls: false }, /parallelToolCalls/],
    [{ reasoningEffort: 'low', thinkingBudget: 5 }, /reasoningEffort/],
    [{ toolChoice: 'required' }, /toolChoice: there are no tools/],
    [{ tools: [tool], toolChoice: { name: 'sub' } }, /toolChoice: unknown tool sub/],
    [
      {
        input: [{ type: 'function_call_output', id: 'o', call_id: 'x', output: '', success: true }],
      },
      /input: the output of x has no call/,
    ],
  ]

  test.each(rows)('%j', (request, message) => {
    expect(() => bodyOf(request)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringMatching(message) }),
    )
  })
})

const call = (args: string): OutputItem => ({
  type: 'function_call',
  id: 'c',
  call_id: 'c',
  name: 'add',
  arguments: args,
})
const output = (text: string, success = true): OutputItem => ({
  type: 'function_call_output',
  id: 'o',
  call_id: 'c',
  output: text,
  success,
})

describe('a thread becomes contents', () => {
  test('with system messages as the instruction', () => {
    const system = { type: 'message', id: 's', origin: 'system', content: 'Be kind' } as const
    expect(bodyOf({ input: [system, user] })).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
      systemInstruction: { parts: [{ text: 'Be kind' }] },
    })
  })

  test('with consecutive items of one role as one content', () => {
    const agent = { type: 'message', id: 'a', origin: 'agent', content: 'Yes' } as const
    expect(contentsOf(user, user, agent, { ...agent, content: '' }, user)).toEqual([
      { role: 'user', parts: [{ text: 'Hi' }, { text: 'Hi' }] },
      { role: 'model', parts: [{ text: 'Yes' }] },
      { role: 'user', parts: [{ text: 'Hi' }] },
    ])
  })

  const rows: [name: string, items: OutputItem[], args: unknown, response: unknown][] = [
    ['an object is itself', [call('{"n":1}'), output('{"m":2}')], { n: 1 }, { m: 2 }],
    [
      'text is wrapped',
      [call('SELECT 1'), output('two')],
      { input: 'SELECT 1' },
      { output: 'two' },
    ],
    ['nothing is an empty object', [call(' '), output('')], {}, { output: '' }],
    ['a failure is an error', [call('{}'), output('no', false)], {}, { error: 'no' }],
    ['a call without an output gets one', [call('{}')], {}, { error: 'The tool was not run' }],
  ]

  test.each(rows)('with outputs for calls: %s', (_, items, args, response) => {
    expect(contentsOf(...items)).toEqual([
      { role: 'model', parts: [{ functionCall: { name: 'add', args } }] },
      { role: 'user', parts: [{ functionResponse: { name: 'add', response } }] },
    ])
  })

  test('without reasoning of other vendors', () => {
    const provider_metadata = { anthropic: { signature: 's' } }
    expect(
      contentsOf(user, { type: 'reasoning', id: 'r', content: 'Hm', provider_metadata }),
    ).toEqual([{ role: 'user', parts: [{ text: 'Hi' }] }])
  })
})

describe('items from the vendor are sent back unchanged', () => {
  const thought = { text: '**Greeting**\nBe kind.', thought: true }
  const code = { language: 'PYTHON', code: 'print(6*7)\n' }
  const rows: [fixture: string, parts: unknown[]][] = [
    ['thoughts', [thought, { text: 'Hi there.' }]],
    [
      'signature-at-the-end',
      [{ text: 'Three letters.' }, { text: '', thoughtSignature: 'c2lnLTE=' }],
    ],
    [
      'signatures-of-two-texts',
      [
        { text: 'One.', thoughtSignature: 'c2lnLTE=' },
        { text: ' More.' },
        { text: 'Two.', thoughtSignature: 'c2lnLTI=' },
      ],
    ],
    [
      'code-execution',
      [
        { text: 'I compute. ' },
        { executableCode: code, thoughtSignature: 'c2lnLTE=' },
        { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '42\n' } },
        { text: 'It is 42.' },
      ],
    ],
    [
      'inline-data',
      [
        { text: 'Here: ' },
        { inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' } },
        { text: 'Nice?' },
      ],
    ],
  ]

  test.each(rows)('%s', (fixture, parts) => {
    expect(contentsOf(...itemsOf(fixture))).toEqual([{ role: 'model', parts }])
  })

  test('a call keeps its signature, and gets no id that it did not have', () => {
    expect(contentsOf(...itemsOf('parallel-calls'))).toMatchObject([
      {
        role: 'model',
        parts: [
          { text: 'Let me see. ' },
          {
            functionCall: { name: 'get_weather', args: { city: 'Rome' } },
            thoughtSignature: 'c2lnLTE=',
          },
          { functionCall: { name: 'get_time', args: { zone: 'UTC' } } },
          { functionCall: { name: 'now', args: {} } },
        ],
      },
      { role: 'user', parts: [{}, {}, {}] },
    ])
    expect(JSON.stringify(contentsOf(...itemsOf('parallel-calls')))).not.toContain('call_run')
  })

  test('a call and its output keep their id', () => {
    expect(contentsOf(...itemsOf('call-with-id'))).toMatchObject([
      { parts: [{ functionCall: { id: 'fc-77' } }] },
      { parts: [{ functionResponse: { id: 'fc-77', name: 'add' } }] },
    ])
  })
})
