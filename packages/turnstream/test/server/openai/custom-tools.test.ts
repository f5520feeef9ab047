import type OpenAI from 'openai'
import { expect, test } from 'vitest'
import type { Answer } from '../../providers/vendor-server.ts'
import { ASK, post, stage } from './stage.ts'

const TOOL: OpenAI.ChatCompletionTool = {
  type: 'custom',
  custom: {
    name: 'shell',
    description: 'Runs a command.',
    format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "ls"' } },
  },
}

const FUNCTION: OpenAI.ChatCompletionTool = {
  type: 'function',
  function: { name: 'f', parameters: { type: 'object', properties: {} } },
}

/** Calls both tools, with arguments in several fragments. */
const answer: Answer = (response) => {
  const call = (index: number, fields: object) => ({
    delta: { tool_calls: [{ index, ...fields }] },
  })
  const choices = [
    call(0, { id: 'c1', type: 'function', function: { name: 'shell', arguments: '{"inp' } }),
    call(0, { function: { arguments: 'ut":"ls\\n' } }),
    call(0, { function: { arguments: '-a"}' } }),
    call(1, { id: 'c2', type: 'function', function: { name: 'f', arguments: '{}' } }),
    { delta: {}, finish_reason: 'tool_calls' },
  ]
  const chunks = choices.map((choice) => ({ id: 'x', choices: [{ index: 0, ...choice }] }))
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.end(
    [...chunks.map((each) => JSON.stringify(each)), '[DONE]']
      .map((data) => `data: ${data}\n\n`)
      .join(''),
  )
}

const CALLS = [
  { id: 'c1', type: 'custom', custom: { name: 'shell', input: 'ls\n-a' } },
  { id: 'c2', type: 'function', function: { name: 'f', arguments: '{}' } },
]

test('a custom tool becomes a function with one text, and its calls come back as custom', async () => {
  const { client, asked } = await stage('openai-chat', answer)
  const { data, response } = await client.chat.completions
    .create({ ...ASK, tools: [TOOL, FUNCTION], tool_choice: 'auto' })
    .withResponse()
  expect(data.choices[0]?.message.tool_calls).toEqual(CALLS)
  expect(data.choices[0]?.finish_reason).toBe('tool_calls')
  expect(response.headers.get('x-turnstream-ignored')).toBeNull()
  expect(asked().tools[0].function).toMatchObject({
    name: 'shell',
    description: expect.stringMatching(/^Runs a command\.[^]*start: "ls"/),
    parameters: { properties: { input: { type: 'string' } }, required: ['input'] },
  })
})

test('a stream has the call at once, and its input in one piece', async () => {
  const { client } = await stage('openai-chat', answer)
  const stream = await client.chat.completions.create({ ...ASK, tools: [TOOL], stream: true })
  const deltas = []
  for await (const { choices } of stream) deltas.push(...(choices[0]?.delta.tool_calls ?? []))
  expect(deltas.filter(({ index }) => index === 0)).toEqual([
    { index: 0, id: 'c1', type: 'custom', custom: { name: 'shell', input: '' } },
    { index: 0, custom: { input: 'ls\n-a' } },
  ])
  expect(deltas.findLast(({ index }) => index === 1)).toEqual({
    index: 1,
    function: { arguments: '{}' },
  })
})

test('earlier calls of custom tools go back as their functions', async () => {
  const { client, asked } = await stage('openai-chat', answer)
  await client.chat.completions.create({
    model: ASK.model,
    tools: [TOOL],
    messages: [
      ...ASK.messages,
      { role: 'assistant', content: null, tool_calls: CALLS.slice(0, 1) as never },
      { role: 'tool', tool_call_id: 'c1', content: 'a.txt' },
    ],
  })
  expect(asked().messages.slice(1)).toMatchObject([
    {
      role: 'assistant',
      tool_calls: [{ id: 'c1', function: { name: 'shell', arguments: '{"input":"ls\\n-a"}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'a.txt' },
  ])
})

test('a custom tool can be forced, or be among the allowed ones', async () => {
  const { server, asked } = await stage('openai-chat', answer)
  const tools = [TOOL, FUNCTION]
  const forced = { type: 'custom', custom: { name: 'shell' } }
  expect((await post(server, { ...ASK, tools, tool_choice: forced })).status).toBe(200)
  expect(asked().tool_choice).toEqual({ type: 'function', function: { name: 'shell' } })
  const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [forced] } }
  expect((await post(server, { ...ASK, tools, tool_choice: allowed })).status).toBe(200)
  expect(asked().tools).toHaveLength(1)
  const wrong = { ...ASK, tools: [{ type: 'custom', custom: { name: 'a b' } }] }
  expect((await post(server, wrong)).status).toBe(400)
})
