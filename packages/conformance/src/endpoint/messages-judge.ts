import { parseJsonObject } from '@turnstream/core/internal/protocol/json'
import { type Check, skipped, warn } from './check.ts'
import { truncationCheck } from './event-framing.ts'
import {
  type Answered,
  answeredFault,
  decoded,
  firstFault,
  isStream,
  plainCheck,
  type Recorded,
  refusalIn,
  refusedFault,
  streamCheck,
} from './exchange.ts'
import { type Fault, faultCheck, measure, shown } from './fault.ts'
import type { Answer } from './http.ts'
import {
  callsOf,
  countFault,
  MESSAGES_RULES,
  type MessagesStream,
  messageFault,
  missingTextFault,
  outputTokens,
  refusalFault,
  requestIdFault,
  startedMessage,
  streamedText,
  textOf,
  textTimes,
} from './messages-rules.ts'
import { decodeEvents } from './recording.ts'
import { isNotOffered } from './responses-object.ts'

/** Everything a server of the Messages API sent. */
export interface MessagesRecord {
  readonly answer: Answered
  readonly text: Recorded
  readonly tool: Recorded
  readonly count: Answered
  /** The message of `answer`, and the stream of `text`, read again. */
  readonly joined: { readonly message: Answered; readonly stream: Recorded } | undefined
  readonly unknownModel: Answered
  readonly malformed: Answered
  /** Undefined without a key. */
  readonly wrongKey: Answered | undefined
  /** A stream whose provider breaks off. */
  readonly broken: Recorded | undefined
}

/** The checks of a recorded server. */
export function judgeMessages(record: MessagesRecord): Check[] {
  const { answer, count } = record
  const text = decoded(record.text, decodeEvents)
  const tool = decoded(record.tool, decodeEvents)
  const streams = [text, tool].filter(isStream)
  const refusals = [record.unknownModel, record.malformed, record.wrongKey]
  const answers = [answer, ...refusals].flatMap((each) => (each && 'status' in each ? [each] : []))
  return [
    plainCheck('answer', answer, messageFault, 'a complete message'),
    faultCheck('stream status', refusedFault([record.text]), '200'),
    ...MESSAGES_RULES.map(([name, fine, rule]) =>
      faultCheck(name, firstFault(streams, rule), fine),
    ),
    streamCheck('stream text', text, missingTextFault, 'streamed'),
    toolCheck(tool),
    'status' in count && isNotOffered(count)
      ? skipped('count tokens', 'not offered')
      : plainCheck('count tokens', count, countFault, 'a count'),
    joinCheck(record, text),
    refusalCheck('unknown model', record.unknownModel, [404, 400]),
    refusalCheck('malformed body', record.malformed, [400]),
    record.wrongKey === undefined
      ? skipped('wrong key', 'no key was given')
      : refusalCheck('wrong key', record.wrongKey, [401]),
    faultCheck('request id', requestIdsFault(answers), 'in the header of every response'),
    truncationCheck(
      record.broken,
      'an error event, and no message_stop, when the provider breaks off',
      hasFailed,
    ),
    ...(isStream(text) ? measurements(text) : []),
  ]
}

function refusalCheck(name: string, answer: Answered, statuses: readonly number[]): Check {
  const fault = answeredFault(answer, (each) => refusalFault(each, statuses))
  return faultCheck(name, fault, 'refused')
}

function requestIdsFault(answers: readonly Answer[]): Fault | undefined {
  const faults = answers.map(requestIdFault)
  return faults.find((fault) => fault !== undefined)
}

function toolCheck(tool: Recorded<MessagesStream>): Check {
  if (isStream(tool) && callsOf(tool).length > 0) return faultCheck('tool call', undefined, 'made')
  const came = isStream(tool) ? 'the model called no tool' : refusalIn(tool)
  return warn('tool call', came, 'Choose a model with tool support: --model <model>')
}

/** Reading a message again is an extension of turnstream. */
function joinCheck({ answer, joined }: MessagesRecord, text: Recorded<MessagesStream>): Check {
  const name = 'join'
  if (joined === undefined) return skipped(name, 'no message')
  const { message, stream } = joined
  if ('status' in message && isNotOffered(message)) {
    return skipped(name, 'not offered: an extension of turnstream')
  }
  const again = decoded(stream, decodeEvents)
  const fault =
    answeredFault(message, (each) => {
      const isSame =
        'body' in answer &&
        textOf(parseJsonObject(each.body)) === textOf(parseJsonObject(answer.body))
      return (
        messageFault(each) ??
        (isSame ? undefined : { expected: 'the message that was sent', came: shown(each.body) })
      )
    }) ?? joinFault(again, text)
  return faultCheck(name, fault, 'the same message and stream (an extension of turnstream)')
}

function joinFault(
  again: Recorded<MessagesStream>,
  text: Recorded<MessagesStream>,
): Fault | undefined {
  const expected = 'the stream again, from its start'
  if (!isStream(again)) return { expected, came: refusalIn(again) }
  if (!isStream(text)) return undefined
  for (const [, , rule] of MESSAGES_RULES) {
    const fault = rule(again)
    if (fault !== undefined) return fault
  }
  const isSame =
    streamedText(again) === streamedText(text) &&
    startedMessage(again)['id'] === startedMessage(text)['id']
  return isSame ? undefined : { expected, came: shown(streamedText(again)) }
}

function hasFailed(types: readonly unknown[]): boolean {
  return types.includes('error') && !types.includes('message_stop')
}

function measurements(stream: MessagesStream): Check[] {
  const { reads, events } = stream
  return measure({
    times: textTimes(stream),
    tokens: outputTokens(stream),
    reads: reads.length,
    events: events.length,
    unit: 'events',
  })
}
