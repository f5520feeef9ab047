/** Requests that are refused, and what the others are made of. */
import { HELLO } from './stage.ts'

export const PLAIN = { model: 'plain/m', messages: HELLO }
const user = (content: unknown) => ({ messages: [{ role: 'user', content }] })
const image = (url: string, more = {}) => user([{ type: 'image_url', image_url: { url, ...more } }])
export const tool = (fields: object) => ({ tools: [{ type: 'function', function: fields }] })
export const asked = (id = 'c') => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: '{}' } }],
})
const many = (length: number, each: unknown) => Array.from({ length }, () => each)
export const GIF = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='

/** A request that is refused, and the parameter that is named. */
export const REFUSED: [body: object, param: string | null, code: string][] = [
  [{ model: undefined }, 'model', 'missing_required_parameter'],
  [{ model: '' }, 'model', 'invalid_value'],
  [{ model: 7 }, 'model', 'invalid_type'],
  [{ messages: undefined }, 'messages', 'missing_required_parameter'],
  [{ messages: [] }, 'messages', 'invalid_value'],
  [{ messages: 'Hi' }, 'messages', 'invalid_type'],
  [{ messages: many(2049, HELLO[0]) }, 'messages', 'invalid_value'],
  [{ messages: ['Hi'] }, 'messages[0]', 'invalid_type'],
  [{ messages: [{ role: 'robot', content: 'Hi' }] }, 'messages[0].role', 'invalid_value'],
  [{ messages: [{ role: 'user' }] }, 'messages[0].content', 'invalid_value'],
  [user(null), 'messages[0].content', 'invalid_value'],
  [user([]), 'messages[0].content', 'invalid_value'],
  [user([{ type: 'text' }]), 'messages[0].content[0].text', 'missing_required_parameter'],
  [user([{ type: 'input_audio' }]), 'messages[0].content[0].type', 'invalid_value'],
  [{ messages: [{ role: 'assistant' }] }, 'messages[0].content', 'invalid_value'],
  [
    { messages: [{ role: 'tool', tool_call_id: 'c', content: '' }] },
    'messages[0].tool_call_id',
    'invalid_value',
  ],
  [{ messages: [...HELLO, asked()] }, 'messages[1].tool_calls', 'invalid_value'],
  [{ messages: [...HELLO, asked(), ...HELLO] }, 'messages[1].tool_calls', 'invalid_value'],
  [
    {
      messages: [
        asked(),
        { role: 'tool', tool_call_id: 'c', content: '' },
        { role: 'tool', tool_call_id: 'c', content: '' },
      ],
    },
    'messages[2].tool_call_id',
    'invalid_value',
  ],
  [
    { messages: [asked(), { role: 'tool', tool_call_id: 'c', content: '', name: 'g' }] },
    'messages[1].name',
    'invalid_value',
  ],
  [
    { messages: [{ ...asked(), tool_calls: [{ id: 'c', type: 'hosted' }] }] },
    'messages[0].tool_calls[0].type',
    'invalid_value',
  ],
  [image('https://x.example/a.png'), 'messages[0].content[0].image_url.url', 'invalid_value'],
  [image('file:///etc/passwd'), 'messages[0].content[0].image_url.url', 'invalid_value'],
  [image('data:image/png,abc'), 'messages[0].content[0].image_url.url', 'invalid_value'],
  [
    image('data:image/svg+xml;base64,AAAA'),
    'messages[0].content[0].image_url.url',
    'invalid_value',
  ],
  [image('data:image/png;base64,'), 'messages[0].content[0].image_url.url', 'invalid_value'],
  [image('data:image/png;base64,A*AA'), 'messages[0].content[0].image_url.url', 'invalid_value'],
  [image('data:image/png;base64,AAA'), 'messages[0].content[0].image_url.url', 'invalid_value'],
  [image(GIF.replace('gif', 'png')), 'messages[0].content[0].image_url.url', 'invalid_value'],
  [
    user(many(101, { type: 'image_url', image_url: { url: GIF } })),
    'messages[0].content',
    'invalid_value',
  ],
  [{ n: 2 }, 'n', 'unsupported_parameter'],
  [{ seed: 'x' }, 'seed', 'invalid_type'],
  [{ logit_bias: { 1: 101 } }, 'logit_bias.1', 'invalid_value'],
  [{ frequency_penalty: 3 }, 'frequency_penalty', 'invalid_value'],
  [{ functions: [{ name: 'a b' }] }, 'functions[0].name', 'invalid_value'],
  [{ function_call: 'some' }, 'function_call', 'invalid_value'],
  [
    { messages: [{ role: 'function', name: 'f', content: 'Hi' }] },
    'messages[0].name',
    'invalid_value',
  ],
  [
    { messages: [{ role: 'assistant', function_call: { name: 'f', arguments: '{}' } }] },
    'messages[0].function_call',
    'invalid_value',
  ],
  [{ logprobs: true }, 'logprobs', 'unsupported_parameter'],
  [{ top_logprobs: 2 }, 'top_logprobs', 'unsupported_parameter'],
  [{ audio: { voice: 'x' } }, 'audio', 'unsupported_parameter'],
  [{ modalities: ['text', 'audio'] }, 'modalities', 'unsupported_parameter'],
  [{ stream: 'yes' }, 'stream', 'invalid_type'],
  [{ temperature: 3 }, 'temperature', 'invalid_value'],
  [{ temperature: '1' }, 'temperature', 'invalid_type'],
  [{ top_p: 2 }, 'top_p', 'invalid_value'],
  [{ max_tokens: 0 }, 'max_tokens', 'invalid_value'],
  [{ max_tokens: 1, max_completion_tokens: 2 }, 'max_tokens', 'invalid_value'],
  [{ stop: many(5, 'x') }, 'stop', 'invalid_value'],
  [tool({}), 'tools[0].function.name', 'missing_required_parameter'],
  [tool({ name: 'a b' }), 'tools[0].function.name', 'invalid_value'],
  [{ tools: many(129, tool({ name: 'f' }).tools[0]) }, 'tools', 'invalid_value'],
  [{ tool_choice: 'some' }, 'tool_choice', 'invalid_value'],
  [{ response_format: { type: 'xml' } }, 'response_format.type', 'invalid_value'],
  [
    { response_format: { type: 'json_schema', json_schema: { name: 'n' } } },
    'response_format.json_schema.schema',
    'missing_required_parameter',
  ],
  [{ metadata: { a: 1 } }, 'metadata.a', 'invalid_type'],
  [
    { metadata: Object.fromEntries(many(17, 0).map((_, at) => [`k${at}`, 'v'])) },
    'metadata',
    'invalid_value',
  ],
  [{ user: 'x'.repeat(513) }, 'user', 'invalid_value'],
]

/** A request that is accepted, and what the header names. */
export const IGNORED: [body: object, ignored: string | null][] = [
  [{ foo: 1 }, 'foo'],
  [{ Model: 'm', 'x,\n': 1 }, 'Model, x??'],
  [{ moderation: {}, prediction: {} }, 'moderation, prediction'],
  [
    { prompt_cache_options: {}, prompt_cache_retention: '24h' },
    'prompt_cache_options, prompt_cache_retention',
  ],
  [{ web_search_options: {} }, 'web_search_options'],
  [
    { stream_options: { include_obfuscation: true, x: 1 } },
    'stream_options.include_obfuscation, stream_options.x',
  ],
  [user([{ type: 'text', text: 'a', x: 1 }]), 'messages[].content[].x'],
  [
    {
      messages: [
        { ...HELLO[0], x: 1 },
        { ...HELLO[0], x: 2 },
      ],
    },
    'messages[].x',
  ],
  [
    image(GIF, { detail: 'high', x: 1 }),
    'messages[].content[].image_url.x, messages[].content[].image_url.detail',
  ],
  [{ tools: [{ type: 'web_search' }, { type: 7 }] }, 'tools[0] (web_search), tools[1] (number)'],
  [{ tools: [{ type: 'hosted' }], tool_choice: 'required' }, 'tools[0] (hosted), tool_choice'],
  [{ tools: [{ type: 'custom', custom: { name: 'f', x: 1 } }] }, 'tools[].custom.x'],
  [tool({ name: 'f', x: 1 }), 'tools[].function.x'],
  [{ tool_choice: { type: 'allowed_tools' } }, 'tool_choice'],
  [{ reasoning_effort: 'extreme', verbosity: 'extreme' }, 'verbosity, reasoning_effort'],
  [{ reasoning: { effort: 'low', exclude: true } }, 'reasoning.exclude'],
  [{ thinking: { type: 'enabled', x: 1 } }, 'thinking.x'],
  [{ text: 7, output_config: [] }, 'text, output_config'],
  [{ format: 7, guided_json: '{' }, 'format, guided_json'],
  [{ reasoning_effort: 'low', reasoning: { effort: 'high' } }, 'reasoning.effort'],
  [
    { response_format: { type: 'json_schema', json_schema: { schema: {}, description: 'D' } } },
    'response_format.json_schema.description',
  ],
  [{ foo: null, n: 1, logprobs: false, modalities: ['text'], seed: null }, null],
  [{ frequency_penalty: 0, presence_penalty: 0, service_tier: 'auto', logit_bias: {} }, null],
  [{ functions: [], function_call: 'auto', reasoning_effort: 'xhigh' }, null],
  [{ reasoning_effort: 'low', reasoning: { effort: 'low' } }, null],
  [{ messages: [{ ...HELLO[0], name: 'Ann' }] }, null],
  [image(GIF, { detail: 'auto' }), null],
]
