/** What broken servers of the Messages API send, one fault each. */
import type { MessagesRecord } from '../../../../../conformance/src/endpoint/messages-checks.ts'
import {
  eachEvent,
  type Json,
  withEvents,
  withHead,
  withJson,
  withStatus,
  withText,
} from './edits.ts'

type Change = (record: MessagesRecord) => Partial<MessagesRecord>

interface Planted {
  readonly fault: string
  readonly change: Change
  /** The checks that fail. */
  readonly fails: readonly string[]
}

const text =
  (change: (events: Json[]) => Json[]): Change =>
  (record) => ({ text: withEvents(record.text, change) })

const insert = (at: number, event: Json): Change => text((events) => events.toSpliced(at, 0, event))

const inText =
  (change: (event: Json) => void): Change =>
  (record) => ({ text: eachEvent(record.text, change) })

const inTool =
  (change: (event: Json) => void): Change =>
  (record) => ({ tool: eachEvent(record.tool, change) })

const HTML = '<html>Not found</html>'

const STREAMS: readonly Planted[] = [
  {
    fault: 'a stream that is refused',
    change: ({ text: it }) => ({ text: withHead(it, { status: 500 }) }),
    fails: ['stream status'],
  },
  {
    fault: 'a stream as JSON',
    change: ({ text: it }) => ({ text: withHead(it, { contentType: 'application/json' }) }),
    fails: ['stream type'],
  },
  {
    fault: 'events without names',
    change: ({ text: it }) => ({
      text: withText(it, (sse) => sse.replaceAll(/^event:.*\n/gm, '')),
    }),
    fails: ['stream framing'],
  },
  {
    fault: 'data that is not JSON',
    change: ({ text: it }) => ({ text: withText(it, (sse) => `${sse}data: [END]\n\n`) }),
    fails: ['stream framing'],
  },
  {
    fault: 'invalid UTF-8',
    change: ({ text: it }) => {
      if ('reason' in it) throw new Error(it.reason)
      const bytes = Buffer.from(': \xff\n', 'latin1')
      return { text: { ...it, reads: [{ atMs: 0, bytes }, ...it.reads] } }
    },
    fails: ['stream utf-8'],
  },
  {
    fault: 'an error in an answer that is otherwise complete',
    change: insert(3, { type: 'error', error: { type: 'api_error', message: 'no' } }),
    fails: ['stream errors'],
  },
  {
    fault: 'an event type outside the API',
    change: insert(3, { type: 'message_mood' }),
    fails: ['stream types'],
  },
  {
    fault: 'a ping before message_start',
    change: insert(0, { type: 'ping' }),
    fails: ['stream heartbeats'],
  },
  {
    fault: 'keepalives of another API',
    change: insert(3, { type: 'keepalive' }),
    fails: ['stream heartbeats'],
  },
  {
    fault: 'a second message_start',
    change: text((events) => events.toSpliced(1, 0, events[0])),
    fails: ['stream start'],
  },
  {
    fault: 'a message that starts with its end',
    change: inText((event) => {
      if (event.message) event.message.stop_reason = 'end_turn'
    }),
    fails: ['stream start'],
  },
  {
    fault: 'a message id without its prefix',
    change: inTool((event) => {
      if (event.message) event.message.id = 'chatcmpl-1'
    }),
    fails: ['stream start'],
  },
  {
    fault: 'block indexes from 1',
    change: inText((event) => {
      if ('index' in event) event.index += 1
    }),
    fails: ['stream blocks', 'stream deltas'],
  },
  {
    fault: 'a delta of a block that is not there',
    change: insert(3, {
      type: 'content_block_delta',
      index: 7,
      delta: { type: 'text_delta', text: '' },
    }),
    fails: ['stream blocks'],
  },
  {
    fault: 'a block that is not stopped',
    change: text((events) => {
      const at = events.findIndex(({ type }) => type === 'content_block_stop')
      return events.toSpliced(at, 1)
    }),
    fails: ['stream blocks'],
  },
  {
    fault: 'text in a block of thinking',
    change: inText((event) => {
      if (event.delta?.type === 'thinking_delta') event.delta.type = 'text_delta'
    }),
    fails: ['stream deltas'],
  },
  {
    fault: 'a call that starts with its input',
    change: inTool((event) => {
      if (event.content_block?.input) event.content_block.input = { city: 'Zürich' }
    }),
    fails: ['stream deltas'],
  },
  {
    fault: 'a stream that just stops',
    change: text((events) => events.slice(0, -1)),
    fails: ['stream end'],
  },
  {
    fault: 'an event after message_stop',
    change: text((events) => [
      ...events,
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 1 } },
    ]),
    fails: ['stream end'],
  },
  {
    fault: 'a connection that stays open',
    change: ({ text: it }) => ({ text: withHead(it, { ending: 'left open' }) }),
    fails: ['stream close'],
  },
  {
    fault: 'end_turn after a call',
    change: inTool((event) => {
      if (event.type === 'message_delta') event.delta.stop_reason = 'end_turn'
    }),
    fails: ['stop reason'],
  },
  {
    fault: 'tool_use without a call',
    change: inText((event) => {
      if (event.type === 'message_delta') event.delta.stop_reason = 'tool_use'
    }),
    fails: ['stop reason'],
  },
  {
    fault: 'a stop reason of another API',
    change: inText((event) => {
      if (event.type === 'message_delta') event.delta.stop_reason = 'stop'
    }),
    fails: ['stop reason'],
  },
  {
    fault: 'input that is not JSON',
    change: inTool((event) => {
      if (event.delta?.partial_json) event.delta.partial_json = '{'
    }),
    fails: ['tool input'],
  },
  {
    fault: 'a call without an id',
    change: inTool((event) => {
      if (event.content_block?.type === 'tool_use') delete event.content_block.id
    }),
    fails: ['tool input'],
  },
  {
    fault: 'no usage at the end',
    change: inText((event) => {
      if (event.type === 'message_delta') delete event.usage
    }),
    fails: ['usage'],
  },
  {
    fault: 'an answer without text',
    change: (record) => ({ text: record.tool, joined: undefined }),
    fails: ['stream text'],
  },
]

const ANSWERS: readonly Planted[] = [
  ...(
    [
      ['an answer without text', (json) => (json.content = [])],
      ['an answer without a role', (json) => delete json.role],
      ['an answer that calls nothing', (json) => (json.stop_reason = 'tool_use')],
      ['an answer without usage', (json) => delete json.usage],
    ] as [string, (json: Json) => void][]
  ).map(([fault, change]) => ({
    fault,
    change: (record: MessagesRecord) => ({
      answer: withJson(record.answer, change),
      joined: undefined,
    }),
    fails: ['answer'],
  })),
  {
    fault: 'a count that is no number',
    change: ({ count }) => ({ count: withJson(count, (json) => (json.input_tokens = '12')) }),
    fails: ['count tokens'],
  },
  {
    fault: 'another message when it is read again',
    change: ({ joined: it }) => ({
      joined: it && {
        ...it,
        message: withJson(it.message, (json) => (json.content = [{ type: 'text', text: 'No.' }])),
      },
    }),
    fails: ['join'],
  },
  {
    fault: 'half a stream when it is read again',
    change: ({ joined: it }) => ({
      joined: it && { ...it, stream: withEvents(it.stream, (events) => events.slice(0, 3)) },
    }),
    fails: ['join'],
  },
  {
    fault: 'answers without request-id',
    change: ({ answer }) => {
      if ('reason' in answer) throw new Error(answer.reason)
      return { answer: { ...answer, headers: new Headers() } }
    },
    fails: ['request id'],
  },
  {
    fault: 'a provider that breaks off, as success',
    change: (record) => ({ broken: record.text }),
    fails: ['truncation'],
  },
  {
    fault: 'a provider that breaks off, in silence',
    change: ({ broken }) => ({
      broken: broken && withEvents(broken, (events) => events.slice(0, 4)),
    }),
    fails: ['truncation'],
  },
]

const REFUSALS: readonly Planted[] = (
  [
    ['unknownModel', 'unknown model', 500],
    ['malformed', 'malformed body', 500],
    ['wrongKey', 'wrong key', 403],
  ] as const
).flatMap(
  ([field, check, status]) =>
    [
      {
        fault: `${check} with status ${status}`,
        change: (record) => ({ [field]: withStatus(record[field], status) }),
        fails: [check],
      },
      {
        fault: `${check} with a page`,
        change: (record) => ({ [field]: withStatus(record[field], 400, HTML) }),
        fails: [check],
      },
      {
        fault: `${check} with the error type of another status`,
        change: (record) => ({
          [field]: withJson(record[field], (json) => (json.error.type = 'overloaded_error')),
        }),
        fails: [check],
      },
    ] satisfies Planted[],
)

export const PLANTED_MESSAGES = [...STREAMS, ...ANSWERS, ...REFUSALS]
