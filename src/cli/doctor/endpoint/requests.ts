import { MODEL_LIMIT_MS, REFUSAL_LIMIT_MS, type StreamCall } from './call.ts'

/** Of one, two, three and four bytes: each of them may be cut in two on the way. */
const TEXT = 'Grüße aus Zürich, 東京 und 🙂: one, two, three, four, five, six, seven, eight.'

const WEATHER = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather in a city now',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    },
  },
} as const

const PATH = '/chat/completions'

function ask(content: string) {
  return { messages: [{ role: 'user', content }] }
}

const REPEAT = ask(`Repeat exactly, and nothing else: ${TEXT}`)
const ONE_CALL = ask('What is the weather in Zürich? Ask the tool.')
const TWO_CALLS = ask(
  'What is the weather in Zürich, and what is it in 東京? Call the tool for both cities at the same time.',
)

/** What a model is asked for, and how. */
export function requestsFor(model: string) {
  const stream = (about: string, body: object, asksUsage = false): StreamCall => ({
    about,
    asksUsage,
    path: PATH,
    limitMs: MODEL_LIMIT_MS,
    body: JSON.stringify({ model, stream: true, ...body }),
  })
  const plain = (body: string) => ({ path: PATH, limitMs: REFUSAL_LIMIT_MS, body })
  const tools = { tools: [WEATHER], tool_choice: 'required' }
  return {
    answer: { path: PATH, limitMs: MODEL_LIMIT_MS, body: JSON.stringify({ model, ...REPEAT }) },
    text: stream('a text', REPEAT),
    usage: stream(
      'a text with usage',
      { ...REPEAT, stream_options: { include_usage: true } },
      true,
    ),
    tool: stream('a tool call', { ...ONE_CALL, ...tools }),
    parallel: stream('two tool calls', { ...TWO_CALLS, ...tools }),
    abandoned: { ...stream('a text that is left', REPEAT), leaves: true },
    unknownModel: plain(JSON.stringify({ model: 'turnstream-doctor-no-such-model', ...REPEAT })),
    malformed: plain(`{"model": ${JSON.stringify(model)}, "messages": [`),
    wrongKey: plain(JSON.stringify({ model, ...REPEAT })),
  }
}
