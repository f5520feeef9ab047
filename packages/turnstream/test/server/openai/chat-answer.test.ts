import { expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import type { EventRecord, Tail } from '../../../../core/src/log/turn-log.ts'
import { HEAD } from '../../../../core/test/formats/chat-completions/write-support.ts'
import { delta, open, responseDone, start } from '../../../../core/test/processor/events.ts'
import { ChatAnswer } from '../../../src/server/routes/chat-completions.ts'
import { AnswerStream } from '../../../src/server/streams/answer-stream.ts'
import type { Frame } from '../../../src/server/streams/frames.ts'
import type { SseConnection } from '../../../src/server/streams/sse-connection.ts'

async function answerTo(events: readonly unknown[]): Promise<string> {
  const tail = {
    cursor: '0-0',
    caughtUp: Promise.resolve(),
    async *[Symbol.asyncIterator]() {
      for (const event of events) yield { event, data: '' } as EventRecord
    },
  } as Tail<EventRecord>
  let text = ''
  const connection = {
    isHeldBack: () => false,
    slot: { keep: () => {} },
    send: (frame: Frame) => {
      text += Buffer.from(frame.bytes).toString()
      return true
    },
  } as unknown as SseConnection
  const answer = new AnswerStream(tail, new ChatAnswer(HEAD))
  expect(await answer.begin(fakeClock(), 1000)).toBeUndefined()
  await answer.sendTo(connection)
  expect(answer.isComplete).toBe(true)
  return text
}

test('records that are not events are ignored before and after the first output', async () => {
  const { payload: _, ...bare } = delta('a', 'x')
  const noText = { ...bare, payload: { type: 'item_delta', item_id: 'a', delta_content: 1 } }
  const broken = [{}, { type: 'nonsense' }, { event_id: 'e', timestamp: 1 }, bare, noText]
  const [begin, item, first, second, end] = [
    start(),
    open('a'),
    delta('a', 'Hello '),
    delta('a', 'world'),
    responseDone(),
  ]
  const whole = await answerTo([begin, item, first, second, end])
  expect(whole).toContain('"content":"world"')
  expect(await answerTo([begin, ...broken, item, ...broken, first, ...broken, second, end])).toBe(
    whole,
  )
})
