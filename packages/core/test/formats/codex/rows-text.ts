/** What the model and the user say. */
import {
  agentMessage,
  completed,
  failedAttempt,
  message,
  note,
  type Row,
  reasoning,
  said,
  started,
  textDelta,
  userMessage,
} from './events.ts'

const summaryDelta = (summaryIndex: number, delta: string) =>
  note('item/reasoning/summaryTextDelta', { itemId: 'r', summaryIndex, delta })

const planOf = (status: string) => [
  { step: 'look', status },
  { step: 'go', status: 'pending' },
]
const planned = (status: string, explanation: string | null = null) =>
  note('turn/plan/updated', { explanation, plan: planOf(status) })
export const textRows: Row[] = [
  {
    name: 'a message is its deltas',
    events: said('m', 'Hello ', 'world'),
    items: [message('Hello world')],
  },
  {
    name: 'a message without deltas is its whole text',
    events: [started(agentMessage('m', '')), completed(agentMessage('m', 'Whole'))],
    items: [message('Whole')],
  },
  {
    name: 'a message that was never announced is also emitted',
    events: [textDelta('m', 'Hi'), completed(agentMessage('m', 'Hi'))],
    items: [message('Hi')],
  },
  {
    name: 'the completed item wins over what was streamed',
    events: [
      started(agentMessage('m', '')),
      textDelta('m', 'Helo'),
      completed(agentMessage('m', 'Hello')),
    ],
    items: [message('Hello')],
  },
  {
    name: 'deltas that come after the end of their message are dropped',
    events: [...said('m', 'Hi'), textDelta('m', '!'), completed(agentMessage('m', 'Hi!'))],
    items: [message('Hi')],
  },
  {
    name: 'two messages that interleave stay apart',
    events: [
      started(agentMessage('a', '')),
      started(agentMessage('b', '')),
      textDelta('a', '1'),
      textDelta('b', '2'),
      textDelta('a', '1'),
      completed(agentMessage('b', '2')),
      completed(agentMessage('a', '11')),
    ],
    items: [message('11'), message('2')],
  },
  {
    name: 'a name that is used again names another message',
    events: [...said('m', 'One'), ...said('m', 'Two')],
    items: [message('One'), message('Two')],
  },
  {
    name: 'what the user says is shown as the words of the user',
    events: [
      started({ type: 'userMessage', id: 'q', content: [{ type: 'text', text: 'Why?' }] }),
      completed({ type: 'userMessage', id: 'q', content: [{ type: 'text', text: 'Why?' }] }),
    ],
    items: [userMessage('Why?')],
  },
  {
    name: 'parts of a summary are paragraphs of the reasoning',
    events: [
      started({ type: 'reasoning', id: 'r', summary: [], content: [] }),
      note('item/reasoning/summaryPartAdded', { itemId: 'r', summaryIndex: 0 }),
      summaryDelta(0, 'a'),
      summaryDelta(0, 'b'),
      summaryDelta(1, 'c'),
      completed({ type: 'reasoning', id: 'r', summary: [], content: [] }),
    ],
    items: [reasoning('ab\n\nc')],
  },
  {
    name: 'reasoning in full follows its summary',
    events: [
      started({ type: 'reasoning', id: 'r', summary: [], content: [] }),
      note('item/reasoning/textDelta', { itemId: 'r', contentIndex: 0, delta: 'raw' }),
      completed({ type: 'reasoning', id: 'r', summary: ['short'], content: ['raw'] }),
    ],
    items: [reasoning('short\n\nraw')],
  },
  {
    name: 'an attempt that is given up keeps what it said',
    events: [
      started(agentMessage('a', '')),
      textDelta('a', 'Lost'),
      failedAttempt,
      textDelta('a', ' late'),
      ...said('b', 'Kept'),
    ],
    items: [{ ...message('Lost'), cancelled: { reason: 'attempt_reset' } }, message('Kept')],
  },
  {
    name: 'an attempt that uses the same names again says something new',
    events: [started(agentMessage('a', '')), textDelta('a', 'x'), failedAttempt, ...said('a', 'y')],
    items: [{ ...message('x'), cancelled: { reason: 'attempt_reset' } }, message('y')],
  },
  {
    name: 'surrogates in pieces and controls pass as they are',
    events: said('m', '\ud83d', '\ude00', '\u0000\u2028'),
    items: [message('😀\u0000\u2028')],
  },
  {
    name: 'each change of the plan is a thought',
    events: [planned('inProgress', 'First look.'), planned('completed')],
    items: [
      reasoning('First look.\n\n- [ ] look (in progress)\n- [ ] go'),
      reasoning('- [x] look\n- [ ] go'),
    ],
  },
  {
    name: 'things that happen to the thread, and housekeeping, are no items',
    events: [
      started({ type: 'contextCompaction', id: 'k' }),
      completed({ type: 'contextCompaction', id: 'k' }),
      note('turn/diff/updated', { diff: '-' }),
      note('turn/plan/updated', { plan: [] }),
      note('item/commandExecution/requestApproval', { itemId: 'c' }),
    ],
    items: [],
  },
]
