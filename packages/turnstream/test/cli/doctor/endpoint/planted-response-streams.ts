/** What broken servers of the Responses API stream, one fault each. */
import type { ResponsesRecord } from '../../../../../conformance/src/endpoint/responses-judge.ts'
import { eachEvent, type Json, withEvents, withHead, withText } from './edits.ts'

type Change = (record: ResponsesRecord) => Partial<ResponsesRecord>

export interface Planted {
  readonly fault: string
  readonly change: Change
  /** The checks that fail. */
  readonly fails: readonly string[]
}

const text =
  (change: (event: Json, at: number) => void): Change =>
  (record) => ({ text: eachEvent(record.text, change) })

const tool =
  (change: (event: Json, at: number) => void): Change =>
  (record) => ({ tool: eachEvent(record.tool, change) })

const insert =
  (at: number, event: Json): Change =>
  (record) => ({
    text: withEvents(record.text, (events) => events.toSpliced(at, 0, event)),
  })

const isEnd = ({ type }: Json): boolean => type === 'response.completed'
const NUMBER = { sequence_number: 0 }

export const PLANTED_STREAMS: readonly Planted[] = [
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
    change: ({ text: it }) => ({ text: withText(it, (sse) => `data: hello\n\n${sse}`) }),
    fails: ['stream framing'],
  },
  {
    fault: 'data after [DONE]',
    change: ({ text: it }) => ({ text: withText(it, (sse) => `${sse}data: {}\n\n`) }),
    fails: ['stream framing'],
  },
  {
    fault: 'invalid UTF-8',
    change: ({ text: it }) => {
      if ('reason' in it) throw new Error(it.reason)
      return {
        text: {
          ...it,
          reads: [{ atMs: 0, bytes: Buffer.from(': \xff\n', 'latin1') }, ...it.reads],
        },
      }
    },
    fails: ['stream utf-8'],
  },
  {
    fault: 'an error in an answer that is otherwise complete',
    change: insert(5, { type: 'error', ...NUMBER, error: { message: 'no' } }),
    fails: ['stream errors'],
  },
  {
    fault: 'an event type outside the API',
    change: insert(5, { type: 'response.mood', ...NUMBER }),
    fails: ['stream types'],
  },
  {
    fault: 'a keepalive before response.created',
    change: insert(0, { type: 'keepalive', sequence_number: 0 }),
    fails: ['stream heartbeats'],
  },
  {
    fault: 'pings of another API',
    change: insert(5, { type: 'ping' }),
    fails: ['stream heartbeats', 'stream numbers'],
  },
  {
    fault: 'numbers from 1',
    change: ({ text: it }) => ({
      text: withEvents(
        it,
        (events) => events.map((event, at) => ({ ...event, sequence_number: at + 1 })),
        false,
      ),
    }),
    fails: ['stream numbers'],
  },
  {
    fault: 'no numbers',
    change: ({ text: it }) => ({
      text: withEvents(
        it,
        (events) => events.map(({ sequence_number: _number, ...rest }) => rest),
        false,
      ),
    }),
    fails: ['stream numbers'],
  },
  {
    fault: 'another response id in the second event',
    change: text((event, at) => {
      if (at === 1) event.response.id = 'resp_other'
    }),
    fails: ['stream response'],
  },
  {
    fault: 'a response id without its prefix',
    change: tool((event) => {
      if (event.response) event.response.id = 'cmpl-1'
    }),
    fails: ['stream response'],
  },
  {
    fault: 'no response.created',
    change: ({ text: it }) => ({ text: withEvents(it, (events) => events.slice(1)) }),
    fails: ['stream order'],
  },
  {
    fault: 'text before its part',
    change: ({ text: it }) => ({
      text: withEvents(it, (events) => {
        const at = events.findIndex(
          ({ type, part }) => type.endsWith('part.added') && part.type === 'output_text',
        )
        const [part] = events.splice(at, 1)
        return events.toSpliced(at + 1, 0, part)
      }),
    }),
    fails: ['stream order'],
  },
  {
    fault: 'an item that is not closed',
    change: ({ tool: it }) => ({
      tool: withEvents(it, (events) =>
        events.filter(
          ({ type, item }) => type !== 'response.output_item.done' || item.type !== 'reasoning',
        ),
      ),
    }),
    fails: ['stream order', 'response output'],
  },
  {
    fault: 'indexes from 1',
    change: text((event) => {
      if ('output_index' in event) event.output_index += 1
    }),
    fails: ['stream indexes'],
  },
  {
    fault: 'another item id in a delta',
    change: text((event) => {
      if (event.type === 'response.output_text.delta') event.item_id = 'msg_other'
    }),
    fails: ['stream item ids'],
  },
  {
    fault: 'item ids without a prefix',
    change: ({ tool: it }) => ({ tool: withText(it, (sse) => sse.replaceAll('"fc_', '"call-')) }),
    fails: ['stream item ids'],
  },
  {
    fault: 'items without a status',
    change: tool((event) => {
      delete event.item?.status
      for (const item of event.response?.output ?? []) delete item.status
    }),
    fails: ['stream items'],
  },
  {
    fault: 'a call id that is too long',
    change: ({ tool: it }) => ({
      tool: withText(it, (sse) => sse.replaceAll('call_1', 'c'.repeat(65))),
    }),
    fails: ['stream items'],
  },
  {
    fault: 'a lost delta',
    change: ({ text: it }) => ({
      text: withEvents(it, (events) => {
        const at = events.findIndex(({ type }) => type === 'response.output_text.delta')
        return events.toSpliced(at, 1)
      }),
    }),
    fails: ['stream text'],
  },
  {
    fault: 'deltas that repeat the text',
    change: ({ text: it }) => {
      let all = ''
      return {
        text: eachEvent(it, (event) => {
          if (event.type === 'response.output_text.delta') event.delta = all += event.delta
        }),
      }
    },
    fails: ['stream text'],
  },
  {
    fault: 'a stream that just stops',
    change: ({ text: it }) => ({ text: withEvents(it, (events) => events.slice(0, -3)) }),
    fails: ['stream terminal'],
  },
  {
    fault: 'two terminal events',
    change: ({ text: it }) => ({
      text: withEvents(it, (events) => [...events, ...events.slice(-1)]),
    }),
    fails: ['stream terminal'],
  },
  {
    fault: 'an event after the terminal event',
    change: ({ text: it }) => ({
      text: withEvents(it, (events) => [...events, { ...events[1] }]),
    }),
    fails: ['stream terminal'],
  },
  {
    fault: 'a connection that stays open',
    change: ({ text: it }) => ({ text: withHead(it, { ending: 'left open' }) }),
    fails: ['stream close'],
  },
  {
    fault: 'a missing member',
    change: tool((event) => {
      delete event.response?.truncation
    }),
    fails: ['response members'],
  },
  {
    fault: 'a response that is completed from the start',
    change: text((event, at) => {
      if (at === 0) event.response.status = 'completed'
    }),
    fails: ['response status'],
  },
  {
    fault: 'completed without its time',
    change: tool((event) => {
      if (isEnd(event)) event.response.completed_at = null
    }),
    fails: ['response status'],
  },
  {
    fault: 'an empty output at the end',
    change: tool((event) => {
      if (isEnd(event)) event.response.output = []
    }),
    fails: ['response output'],
  },
  {
    fault: 'usage without its details',
    change: tool((event) => {
      if (isEnd(event)) delete event.response.usage.output_tokens_details
    }),
    fails: ['usage'],
  },
  {
    fault: 'a total that is no sum',
    change: tool((event) => {
      if (isEnd(event)) event.response.usage.total_tokens += 1
    }),
    fails: ['usage'],
  },
  {
    fault: 'an answer without text',
    change: (record) => ({ text: record.tool }),
    fails: ['stream deltas', 'retrieve'],
  },
  {
    fault: 'arguments that are not JSON',
    change: tool((event) => {
      const broken = '{"city"'
      if (event.type === 'response.function_call_arguments.delta') {
        event.delta = event.delta.startsWith('{') ? broken : ''
      }
      if ('arguments' in event) event.arguments = broken
      for (const item of [event.item, ...(event.response?.output ?? [])]) {
        if (item?.arguments) item.arguments = broken
      }
    }),
    fails: ['tool call'],
  },
]
