/** Changes what a server has sent, to what a broken one would have sent. */
import type { Answered, Recorded } from '../../../../../conformance/src/endpoint/exchange.ts'
import type { StreamRecording } from '../../../../../conformance/src/endpoint/recording.ts'

// oxlint-disable-next-line typescript/no-explicit-any -- a fault may be anywhere
export type Json = any

function textOf(recorded: Recorded): string {
  if ('reason' in recorded) throw new Error(recorded.reason)
  return Buffer.concat(recorded.reads.map(({ bytes }) => bytes)).toString()
}

/** The same stream with another text. */
export function withText(recorded: Recorded, change: (text: string) => string): Recorded {
  return withHead(recorded, { reads: [{ atMs: 1, bytes: Buffer.from(change(textOf(recorded))) }] })
}

export function withHead(recorded: Recorded, head: Partial<StreamRecording>): Recorded {
  if ('reason' in recorded) throw new Error(recorded.reason)
  return { ...recorded, ...head }
}

/** The same stream with other events. Numbers follow the order, unless the fault is in them. */
export function withEvents(
  recorded: Recorded,
  change: (events: Json[]) => Json[],
  isRenumbered = true,
): Recorded {
  return withText(recorded, (text) => {
    const datas = [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => data)
    const isDone = datas.at(-1) === '[DONE]'
    const events = change(datas.filter((data) => data !== '[DONE]').map((data) => JSON.parse(data)))
    const frames = events.map((event, at) => {
      const isNumbered = isRenumbered && 'sequence_number' in event && event.type !== 'keepalive'
      const data = isNumbered ? { ...event, sequence_number: at } : event
      return `event: ${event.type}\ndata: ${JSON.stringify(data)}\n\n`
    })
    return frames.join('') + (isDone ? 'data: [DONE]\n\n' : '')
  })
}

/** Changes each event in place. */
export function eachEvent(recorded: Recorded, change: (event: Json, at: number) => void): Recorded {
  return withEvents(recorded, (events) => {
    for (const [at, event] of events.entries()) change(event, at)
    return events
  })
}

export function withJson(answer: Answered | undefined, change: (json: Json) => void): Answered {
  if (answer === undefined || 'reason' in answer) throw new Error('no answer')
  const json = JSON.parse(answer.body)
  change(json)
  return { ...answer, body: JSON.stringify(json) }
}

export function withStatus(answer: Answered | undefined, status: number, body?: string): Answered {
  if (answer === undefined || 'reason' in answer) throw new Error('no answer')
  return { ...answer, status, body: body ?? answer.body }
}
