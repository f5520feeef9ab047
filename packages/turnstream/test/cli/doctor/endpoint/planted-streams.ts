import { chunk } from './fake-endpoint.ts'
import {
  choiceOf,
  deltaOf,
  eachChunk,
  isFinish,
  type Json,
  type Planted,
  plainText,
} from './planted.ts'

export const PLANTED_STREAMS: readonly Planted[] = [
  {
    fault: 'a finish_reason in the middle',
    faults: eachChunk((each, at) => {
      if (at === 2) choiceOf(each)['finish_reason'] = 'stop'
      return each
    }),
    check: 'stream finish',
    expected: /one finish_reason/,
    came: /2 of them/,
  },
  {
    fault: 'text after the finish_reason',
    faults: eachChunk((each) => (isFinish(each) ? [each, chunk({ content: '!' })] : each)),
    check: 'stream finish',
    expected: /the last chunk that has a choice/,
    came: /after it: .*!/,
  },
  {
    fault: 'an unknown finish_reason',
    faults: eachChunk((each) => {
      const isText = choiceOf(each)['finish_reason'] === 'stop'
      if (isText) choiceOf(each)['finish_reason'] = 'eos'
      return each
    }),
    check: 'stream finish',
    expected: /one of stop, length/,
    came: /^eos/,
  },
  {
    fault: 'no role in the first chunk',
    faults: eachChunk((each, at) => (at === 0 ? undefined : each)),
    check: 'stream role',
    expected: /role: "assistant" in the first delta/,
    came: /Grüße/,
  },
  {
    fault: 'an empty role in every chunk',
    faults: eachChunk((each, at) => {
      if (at > 0 && choiceOf(each)['delta']) deltaOf(each)['role'] = ''
      return each
    }),
    check: 'stream role',
    expected: /no other role/,
    came: /"role":""/,
  },
  {
    fault: 'a new id in every chunk',
    faults: eachChunk((each, at) => ({ ...each, id: `chatcmpl-${at}` })),
    check: 'stream id',
    expected: /the same id/,
    came: /11 of them: chatcmpl-0, chatcmpl-1/,
  },
  {
    fault: 'a new created time in every chunk',
    faults: eachChunk((each, at) => ({ ...each, created: at })),
    check: 'stream created',
    expected: /the same created/,
    came: /11 of them/,
  },
  {
    fault: 'no model in the chunks',
    faults: eachChunk(({ model: _model, ...rest }) => rest),
    check: 'stream model',
    expected: /the same model/,
    came: /nothing/,
  },
  {
    fault: 'the object type of a non-streamed response',
    faults: eachChunk((each) => ({ ...each, object: 'chat.completion' })),
    check: 'stream object',
    expected: /chat\.completion\.chunk/,
    came: /^object: chat\.completion /,
  },
  {
    fault: 'a choice without an index',
    faults: eachChunk((each) => {
      delete choiceOf(each)['index']
      return each
    }),
    check: 'stream index',
    expected: /index: 0/,
    came: /nothing/,
  },
  {
    fault: 'a usage chunk without choices',
    faults: eachChunk((each) => {
      const { choices, ...rest } = each
      return each['usage'] ? rest : { ...rest, choices }
    }),
    check: 'stream choices',
    expected: /a list that may be empty/,
    came: /choices are nothing/,
  },
  {
    fault: 'a stream that ends without finish_reason',
    faults: plainText((stream) => {
      stream.events = stream.events.slice(0, -3)
    }),
    check: 'stream finish',
    expected: /one finish_reason/,
    came: /none; the stream ended with \{/,
  },
  {
    fault: 'a connection that breaks in the middle',
    faults: plainText((stream) => {
      stream.events = stream.events.slice(0, 4)
      stream.breaks = true
    }),
    check: 'stream finish',
    expected: /one finish_reason/,
    came: /\(broken\)/,
  },
  {
    fault: '[DONE] in place of an error',
    faults: plainText((stream) => {
      stream.events = [...stream.events.slice(0, 4), '[DONE]']
    }),
    check: 'stream finish',
    expected: /one finish_reason/,
    came: /ended with \[DONE\]/,
  },
  {
    fault: 'an error in a chunk, with status 200',
    faults: plainText((stream) => {
      const error = { choices: [], error: { message: 'overloaded' } }
      stream.events = [...stream.events.slice(0, 3), JSON.stringify(error), '[DONE]']
    }),
    check: 'stream errors',
    expected: /an answer/,
    came: /overloaded/,
  },
  {
    fault: 'no [DONE]',
    faults: plainText((stream) => {
      stream.events = stream.events.slice(0, -1)
    }),
    check: 'stream done',
    expected: /data: \[DONE\] as the last event/,
    came: /^none; the last is/,
  },
  {
    fault: 'something after [DONE]',
    faults: plainText((stream) => {
      stream.events.push('{"late":true}')
    }),
    check: 'stream done',
    expected: /as the last event/,
    came: /after it: \{"late":true\}/,
  },
  {
    fault: 'a connection that stays open after [DONE]',
    faults: plainText((stream) => {
      stream.closes = stream.request['stream_options'] === undefined
    }),
    check: 'stream close',
    expected: /the end of the response/,
    came: /stayed open \(requested a text with usage\)/,
  },
  {
    fault: 'another content type',
    faults: plainText((stream) => {
      stream.contentType = 'application/json'
    }),
    check: 'stream type',
    expected: /text\/event-stream/,
    came: /application\/json/,
  },
  {
    fault: 'split characters',
    faults: eachChunk((each) => {
      const { content } = deltaOf(each)
      if (content === '🙂') deltaOf(each)['content'] = '\uFFFD\uFFFD'
      return each
    }),
    check: 'stream utf-8',
    expected: /complete UTF-8 characters/,
    came: /\uFFFD/,
  },
  {
    fault: 'invalid UTF-8',
    faults: plainText((stream) => {
      stream.writes = (bytes) => [
        Buffer.from(bytes.toString('binary').replaceAll('\u00f0\u009f', '\u00f0'), 'binary'),
      ]
    }),
    check: 'stream utf-8',
    expected: /complete UTF-8 characters/,
    came: /invalid UTF-8/,
  },
  {
    fault: 'truncated JSON',
    faults: plainText((stream) => {
      stream.events.splice(2, 0, '{"id":"chatcmpl-1","obj')
    }),
    check: 'stream framing',
    expected: /one JSON object/,
    came: /"obj/,
  },
  {
    fault: 'deltas with the accumulated text',
    faults: {
      stream: (stream) => {
        let text = ''
        stream.events = stream.events.map((data) => {
          if (data === '[DONE]') return data
          const each = JSON.parse(data) as Json
          const { content } = deltaOf(each)
          if (typeof content !== 'string' || content === '') return data
          text += content
          deltaOf(each)['content'] = text
          return JSON.stringify(each)
        })
      },
    },
    check: 'stream text',
    expected: /each add to the text/,
    came: /Grüße aus/,
  },
]
