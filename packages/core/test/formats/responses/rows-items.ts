/** Events of a turn, and the items that they come to. */
import { added, done, type Fields, summaryDelta, text, textDelta, wireMessage } from './events.ts'

export interface ItemRow {
  name: string
  events: readonly unknown[]
  items: readonly Fields[]
}

const openaiMessage = { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed' }
const message = (content: string, openai: Fields = openaiMessage) => ({
  type: 'message',
  origin: 'agent',
  content,
  openai,
})
const reasoning = (content: string, openai: Fields) => ({
  ...message(content, openai),
  type: 'reasoning',
})
const bare = { type: 'message' }
const part = (type: string, output_index: number, content_index: number, part: Fields) => ({
  type: `response.content_part.${type}`,
  output_index,
  content_index,
  part,
})
const refusalPart = { type: 'refusal', refusal: 'No.' }
const citation = { type: 'url_citation', start_index: 0, end_index: 2, url: 'https://a.example' }
const wireReasoning = (summary: string[], more: Fields = {}) => ({
  type: 'reasoning',
  id: 'rs_1',
  summary: summary.map((each) => ({ type: 'summary_text', text: each })),
  ...more,
})

export const textRows: ItemRow[] = [
  { name: 'text is one message', events: text(0, 'Hel', 'lo'), items: [message('Hello')] },
  {
    name: 'halves of a surrogate pair in two deltas are one character',
    events: text(0, '\ud83d', '\ude00'),
    items: [message('😀')],
  },
  {
    name: 'the final text wins over what was streamed, also when it is shorter',
    events: [added(0, wireMessage()), textDelta(0, 'Hello!!'), done(0, wireMessage('Hello'))],
    items: [message('Hello')],
  },
  {
    name: 'a message that is done without parts keeps what was streamed',
    events: [added(0, wireMessage()), textDelta(0, 'Hi'), done(0, wireMessage())],
    items: [message('Hi')],
  },
  {
    name: 'a message that nobody announced is opened by its text',
    events: [textDelta(0, 'H'), textDelta(0, 'i')],
    items: [message('Hi', bare)],
  },
  {
    name: 'a message of which only the end is sent is there',
    events: [done(0, wireMessage('Hi'))],
    items: [message('Hi')],
  },
  {
    name: 'text that was not streamed is taken from the end of its part',
    events: [
      textDelta(0, 'He'),
      { type: 'response.output_text.done', output_index: 0, text: 'Hey' },
    ],
    items: [message('Hey', bare)],
  },
  {
    name: 'the end of a part that is over says nothing new',
    events: [
      textDelta(0, 'a', 0),
      textDelta(0, 'b', 1),
      { type: 'response.output_text.done', output_index: 0, content_index: 0, text: 'a' },
    ],
    items: [message('ab', bare)],
  },
  {
    name: 'parts of a message are one text, and kept apart for the vendor',
    events: [textDelta(0, 'a', 0), textDelta(0, 'b', 1), done(0, wireMessage('a', 'b'))],
    items: [message('ab', { ...openaiMessage, content: wireMessage('a', 'b').content })],
  },
  {
    name: 'items go by their place when every event has another item id',
    events: [
      added(0, { ...wireMessage(), id: 'r1' }),
      { ...textDelta(0, 'a'), item_id: 'r2' },
      added(1, { ...wireMessage(), id: 'r3' }),
      { ...textDelta(0, 'b'), item_id: 'r4' },
      { ...textDelta(1, 'c'), item_id: 'r5' },
      done(1, { ...wireMessage('c'), id: 'r6' }),
      done(0, { ...wireMessage('ab'), id: 'r7' }),
    ],
    items: [
      message('ab', { ...openaiMessage, id: 'r7' }),
      message('c', { ...openaiMessage, id: 'r6' }),
    ],
  },
  {
    name: 'items go by their id when the server counts no places',
    events: [
      { type: 'response.output_item.added', item: { ...wireMessage(), id: 'a' } },
      { type: 'response.output_item.added', item: { ...wireMessage(), id: 'b' } },
      { type: 'response.output_text.delta', item_id: 'a', delta: '1' },
      { type: 'response.output_text.delta', item_id: 'b', delta: '2' },
      { type: 'response.output_item.done', item: { ...wireMessage(), id: 'a' } },
    ],
    items: [message('1', { ...openaiMessage, id: 'a' }), message('2', bare)],
  },
  {
    name: 'what comes late for a message that is done is dropped',
    events: [...text(0, 'Hi'), textDelta(0, '!'), done(0, wireMessage('Hi?'))],
    items: [message('Hi')],
  },
  {
    name: 'a place that is used again is another message',
    events: [...text(0, 'One'), ...text(0, 'Two')],
    items: [message('One'), message('Two')],
  },
  {
    name: 'annotations are kept',
    events: [
      textDelta(0, 'Hi'),
      { type: 'response.output_text.annotation.added', output_index: 0, annotation: citation },
    ],
    items: [message('Hi', { ...bare, annotations: [citation] })],
  },
  {
    name: 'annotations of the finished message are kept once',
    events: [
      textDelta(0, 'Hi'),
      { type: 'response.output_text.annotation.added', output_index: 0, annotation: citation },
      done(0, {
        ...wireMessage(),
        content: [{ type: 'output_text', text: 'Hi', annotations: [citation] }],
      }),
    ],
    items: [message('Hi', { ...openaiMessage, annotations: [citation] })],
  },
  {
    name: 'a refusal is a message that says so',
    events: [
      part('added', 0, 0, { type: 'refusal', refusal: '' }),
      { type: 'response.refusal.delta', output_index: 0, content_index: 0, delta: 'No' },
      { type: 'response.refusal.done', output_index: 0, content_index: 0, refusal: 'No.' },
      done(0, { ...wireMessage(), content: [refusalPart] }),
    ],
    items: [message('No.', { ...openaiMessage, refusal: true })],
  },
  {
    name: 'a refusal that is only in the finished message is one',
    events: [done(0, { ...wireMessage(), content: [refusalPart] })],
    items: [message('No.', { ...openaiMessage, refusal: true })],
  },
  {
    name: 'the phase of a message is kept',
    events: [done(0, { ...wireMessage('Hm'), phase: 'commentary' })],
    items: [message('Hm', { ...openaiMessage, phase: 'commentary' })],
  },
]

export const reasoningRows: ItemRow[] = [
  {
    name: 'parts of a summary are paragraphs',
    events: [
      added(0, wireReasoning([])),
      summaryDelta(0, 0, 'One'),
      summaryDelta(0, 0, '.'),
      summaryDelta(0, 1, 'Two.'),
      done(0, wireReasoning(['One.', 'Two.'])),
    ],
    items: [reasoning('One.\n\nTwo.', wireReasoning(['One.', 'Two.']))],
  },
  {
    name: 'a summary that is not done is what was streamed',
    events: [summaryDelta(0, 0, 'One.'), summaryDelta(0, 1, 'Two.')],
    items: [reasoning('One.\n\nTwo.', { type: 'reasoning' })],
  },
  {
    name: 'what was not streamed of a later part is taken from its end',
    events: [
      summaryDelta(0, 0, 'One.'),
      summaryDelta(0, 1, 'Tw'),
      { ...summaryDelta(0, 1, ''), type: 'response.reasoning_summary_text.done', text: 'Two.' },
    ],
    items: [reasoning('One.\n\nTwo.', { type: 'reasoning' })],
  },
  {
    name: 'reasoning without a word keeps what is encrypted in it',
    events: [
      added(0, wireReasoning([], { encrypted_content: 'old' })),
      done(0, wireReasoning([], { encrypted_content: 'new' })),
    ],
    items: [reasoning('', wireReasoning([], { encrypted_content: 'new' }))],
  },
  {
    name: 'the text of reasoning is read where there is one',
    events: [
      part('added', 0, 0, { type: 'reasoning_text', text: '' }),
      { type: 'response.reasoning_text.delta', output_index: 0, content_index: 0, delta: 'Hm' },
      { type: 'response.reasoning_text.done', output_index: 0, content_index: 0, text: 'Hm.' },
    ],
    items: [reasoning('Hm.', { type: 'reasoning' })],
  },
  {
    name: 'what the vendor wants back and nobody needs to read is kept',
    events: [
      added(0, { type: 'compaction', id: 'c', encrypted_content: 'x' }),
      done(0, { type: 'compaction', id: 'c', encrypted_content: 'x' }),
    ],
    items: [reasoning('', { type: 'compaction', id: 'c', encrypted_content: 'x' })],
  },
]
