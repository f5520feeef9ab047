/** Whichever vendor's client sends an answer back, it is recognised. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import { decodeChatRequest } from '../../../core/src/formats/chat-completions/request-in.ts'
import { chatBodySchema } from '../../../core/src/formats/chat-completions/schemas.ts'
import { decodeMessagesRequest } from '../../../core/src/formats/messages/request-in.ts'
import { messagesBodySchema } from '../../../core/src/formats/messages/schemas.ts'
import { decodeResponsesRequest } from '../../../core/src/formats/responses/request-in.ts'
import { responsesBodySchema } from '../../../core/src/formats/responses/schemas.ts'
import { type Submission } from '../../../core/src/formats/submission.ts'
import {
  ChatCompletionsEncoder,
  MessagesEncoder,
  type OutputItem,
  ResponseReducer,
  ResponsesEncoder,
  type StreamEvent,
  toChatCompletion,
} from '../../../core/src/index.ts'
import { shortCallId } from '../../../core/src/protocol/ids.ts'
import { eventsOf } from '../../../core/test/reducer/events.ts'
import { ThreadChain } from '../../src/turns/thread-chain.ts'
import { inputEvents } from '../../src/turns/turn-request.ts'

// oxlint-disable-next-line typescript/no-explicit-any -- the bodies of three APIs
type Body = any

interface Said {
  readonly prompt: string
  readonly answer: readonly OutputItem[]
}

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII='

const word = fc.oneof(
  fc.string(),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('\n\n', '', ' ', 'so'),
)
const args = fc
  .tuple(fc.dictionary(fc.string(), fc.jsonValue()), fc.nat({ max: 3 }))
  .map(([value, indent]) => JSON.stringify(value, null, indent))
  .filter((text) => !text.includes('"__proto__"'))

const agentItem = fc.oneof(
  word.map((content) => ({ type: 'message', content, origin: 'agent' }) as const),
  word.map((content) => ({ type: 'reasoning', content }) as const),
  fc
    .record({ text: fc.oneof(args, fc.constantFrom('', '{"cut": "o')), isLong: fc.boolean() })
    .map(({ text, isLong }) => {
      const call_id = isLong ? 'long'.repeat(30) : 'call'
      return { type: 'function_call', call_id, name: 'look_up', arguments: text } as const
    }),
  // Run by the server: clients see neither.
  fc.constant({
    type: 'function_call',
    call_id: 'own',
    name: 'own_tool',
    arguments: '{}',
    provider_metadata: { executed_by: 'provider' },
  } as const),
)

const conversation: fc.Arbitrary<Said[]> = fc
  .array(fc.record({ prompt: word, answer: fc.array(agentItem, { maxLength: 6 }) }), {
    minLength: 1,
    maxLength: 4,
  })
  .map((turns) =>
    turns.map(({ prompt, answer }, turn) => ({
      prompt: `P${prompt}`,
      answer: answer.map((item, index): OutputItem => {
        const id = `run${turn}:${index + 1}`
        return 'call_id' in item
          ? { ...item, id, call_id: `${item.call_id}${turn}-${index}` }
          : { ...item, id }
      }),
    })),
  )

function turnOf(answer: readonly OutputItem[]): StreamEvent[] {
  return eventsOf([
    ...[...inputEvents(answer, new Map())].map((payload) => {
      if (payload.type !== 'item_start') return payload
      const metadata = answer.find(({ id }) => id === payload.item_id)?.provider_metadata
      return { ...payload, ...(metadata && { provider_metadata: metadata }) }
    }),
    { type: 'response_done', response_id: 'r', status: 'complete', finish_reason: 'stop' },
  ])
}

interface Door {
  /** The messages of a first request. */
  ask(prompt: string): Body[]
  /** What a client adds for an answer and its next prompt. */
  next(turn: readonly StreamEvent[], prompt: string): Body[]
  submission(messages: readonly Body[]): Submission
}

const IMAGE = `data:image/png;base64,${PNG}`

const chat: Door = {
  ask: (prompt) => [
    { role: 'system', content: 'Be short.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: prompt },
        { type: 'image_url', image_url: { url: IMAGE } },
        { type: 'text', text: 'See?' },
      ],
    },
  ],
  next(turn, prompt) {
    const completion = toChatCompletion(turn, { id: 'c', model: 'm', created: 0 })
    if ('error' in completion) throw new Error(completion.error.message)
    const message = completion.choices[0]?.message
    const isEmpty = message?.content === '' && message.tool_calls === undefined
    return [
      ...(isEmpty ? [] : [message]),
      ...(message?.tool_calls ?? []).map(({ id }) => ({
        role: 'tool',
        tool_call_id: id,
        content: 'out',
      })),
      { role: 'user', content: prompt },
    ]
  },
  submission: (messages) =>
    decodeChatRequest(chatBodySchema.parse({ model: 'm', messages })).submission,
}

const streamedChat: Door = {
  ...chat,
  next(turn, prompt) {
    const encoder = new ChatCompletionsEncoder({ id: 'c', model: 'm', created: 0 })
    const message: Body = { role: 'assistant', content: '' }
    for (const frame of turn.flatMap((event) => encoder.encode(event))) {
      const delta: Body = 'choices' in frame ? frame.choices[0]?.delta : undefined
      message.content += delta?.content ?? ''
      for (const { index, id, type, function: said } of delta?.tool_calls ?? []) {
        message.tool_calls ??= []
        message.tool_calls[index] ??= { id, type, function: { name: said.name, arguments: '' } }
        message.tool_calls[index].function.arguments += said.arguments
      }
    }
    const calls: Body[] = message.tool_calls ?? []
    return [
      ...(message.content === '' && calls.length === 0 ? [] : [message]),
      ...calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'out' })),
      { role: 'user', content: prompt },
    ]
  },
}

function responses(isKept: (item: Body) => boolean): Door {
  return {
    ask: (prompt) => [
      { role: 'developer', content: 'Be short.' },
      {
        role: 'user',
        content: [
          { type: 'input_text', text: prompt },
          { type: 'input_text', text: 'See?' },
          { type: 'input_image', image_url: IMAGE },
        ],
      },
    ],
    next(turn, prompt) {
      const encoder = new ResponsesEncoder({ turnId: 't', model: 'm', createdAt: 0 })
      for (const event of turn) encoder.encode(event)
      const { output } = encoder.response
      return [
        ...output.filter(isKept),
        ...output.flatMap((item) =>
          item.type === 'function_call'
            ? [{ type: 'function_call_output', call_id: item.call_id, output: 'out' }]
            : [],
        ),
        { role: 'user', content: prompt },
      ]
    },
    submission: (input) => {
      const body = responsesBodySchema.parse({ model: 'm', input })
      return decodeResponsesRequest(body, { items: [], findItem: () => undefined }).submission
    },
  }
}

const messages: Door = {
  ask: (prompt) => [
    {
      role: 'user',
      content: [
        { type: 'text', text: prompt },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
        { type: 'text', text: 'See?' },
      ],
    },
  ],
  next(turn, prompt) {
    const encoder = new MessagesEncoder({ turnId: 't', model: 'm' })
    for (const event of turn) encoder.encode(event)
    const { content } = encoder.message
    const results = content.flatMap((block) =>
      block.type === 'tool_use'
        ? [{ type: 'tool_result', tool_use_id: block.id, content: [{ type: 'text', text: 'out' }] }]
        : [],
    )
    return [
      ...(content.length === 0 ? [] : [{ role: 'assistant', content }]),
      { role: 'user', content: [...results, { type: 'text', text: prompt }] },
    ]
  },
  submission: (said) => {
    const body = { model: 'm', max_tokens: 100, system: 'Be brief.', messages: said }
    return decodeMessagesRequest(messagesBodySchema.parse(body)).submission
  },
}

const DOORS: Readonly<Record<string, Door>> = {
  chat,
  'streamed chat': streamedChat,
  responses: responses(() => true),
  'responses without reasoning': responses(({ type }) => type !== 'reasoning'),
  messages,
}

function chainOf({ history = [], input }: Submission): Promise<ThreadChain> {
  return ThreadChain.read([...history, ...input])
}

test('an answer has the key that every request which sends it back begins with', {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(conversation, async (turns) => {
      const all: string[][] = []
      for (const [name, door] of Object.entries(DOORS)) {
        const answered: string[] = []
        let said: Body[] = []
        let before: readonly StreamEvent[] | undefined
        for (const { prompt, answer } of turns) {
          said = before === undefined ? door.ask(prompt) : [...said, ...door.next(before, prompt)]
          const chain = await chainOf(door.submission(said))
          expect(chain.keys, name).toEqual(answered.toReversed())
          before = turnOf(answer)
          const reducer = new ResponseReducer()
          for (const event of before) reducer.apply(event)
          const key = await chain.answerKey(reducer.response.output_items)
          if (key !== undefined) answered.push(key)
        }
        all.push(answered)
      }
      for (const answered of all) expect(answered).toEqual(all[0])
    }),
    { numRuns: caseCount(300) },
  )
})

test('a shortened call id stays as it is', () => {
  const id = shortCallId('x'.repeat(200))
  expect(shortCallId(id)).toBe(id)
})
