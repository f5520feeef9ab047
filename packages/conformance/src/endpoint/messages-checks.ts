import { parseJsonObject } from '@turnstream/core/internal/protocol/json'
import { type Check, skipped } from './check.ts'
import { truncationCheck } from './event-framing.ts'
import {
  type Answered,
  abortCheck,
  answeredFault,
  BROKEN_MODEL,
  decoded,
  type Endpoint,
  firstAnswer,
  firstFault,
  isStream,
  isTurnstream,
  MODEL_LIMIT_MS,
  noCallWarning,
  PROMPTS,
  plainCheck,
  REFUSAL_LIMIT_MS,
  type Recorded,
  record,
  refusalCheck,
  refusalIn,
  refusedFault,
  streamCheck,
  UNKNOWN_MODEL,
  WEATHER,
  WRONG_KEY,
} from './exchange.ts'
import { type Fault, faultCheck, measure, shown } from './fault.ts'
import { type Answer, call, type HttpCall } from './http.ts'
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
import { decodeEvents, type StreamCall } from './recording.ts'
import { isNotOffered } from './responses-object.ts'

export function anthropicHeaders(key: string | undefined): Readonly<Record<string, string>> {
  return { 'anthropic-version': '2023-06-01', ...(key !== undefined && { 'x-api-key': key }) }
}

const { schema: input_schema, ...named } = WEATHER
const TOOL = { ...named, input_schema }

const MAX_TOKENS = 4096

function ask(content: string) {
  return { max_tokens: MAX_TOKENS, messages: [{ role: 'user', content }] }
}

const END_SEEN = /^event: ?(?:message_stop|error)\r?$/m

/** Tests a server of the Messages API. Requests are sequential: the server may run one model at a time. */
export async function messagesChecks(
  endpoint: Endpoint,
  model: string,
  models: HttpCall,
): Promise<Check[]> {
  const calls = callsFor(endpoint, model)
  const recorded = await recordMessages(endpoint, calls)
  const abandoned = {
    ...calls.stream('a text, then disconnecting', ask(PROMPTS.count)),
    leavesAt: /./,
  }
  return [...judgeMessages(recorded), await abortCheck(endpoint, abandoned, models)]
}

type Calls = ReturnType<typeof callsFor>

/** Asks a server for everything that the checks need. */
export async function recordMessages(endpoint: Endpoint, calls: Calls) {
  const { onProgress, key } = endpoint
  const answer = await firstAnswer(endpoint, calls.plain(ask(PROMPTS.repeat)))
  const text = await record(endpoint, calls.stream('a text', ask(PROMPTS.repeat)))
  const tools = { tools: [TOOL], tool_choice: { type: 'any' } }
  const asksTool = { ...ask(PROMPTS.oneCall), ...tools }
  const tool = await record(endpoint, calls.stream('a tool call', asksTool))
  onProgress('a count of tokens')
  const { messages } = ask(PROMPTS.repeat)
  const count = await call({ ...calls.plain({ messages }), url: `${calls.url}/count_tokens` })
  // `answer` and `text` again.
  const joined = await join(endpoint, calls, answer, text)
  onProgress('what it refuses')
  const wrong = { ...calls.plain(ask(PROMPTS.count)), headers: anthropicHeaders(WRONG_KEY) }
  return {
    answer,
    text,
    tool,
    count,
    joined,
    unknownModel: await call(calls.plain({ model: UNKNOWN_MODEL, ...ask(PROMPTS.count) })),
    malformed: await call({ ...calls.plain({}), body: '{"messages": [' }),
    wrongKey: key === undefined ? undefined : await call(wrong),
    broken: isTurnstream(answer) ? await breakOff(endpoint, calls) : undefined,
  }
}

/** Everything a server of the Messages API sent. */
export type MessagesRecord = Awaited<ReturnType<typeof recordMessages>>

async function join(
  endpoint: Endpoint,
  { common, url }: Calls,
  answer: Answered,
  text: Recorded,
): Promise<{ readonly message: Answered; readonly stream: Recorded } | undefined> {
  const id = idOf(answer)
  const stream = decoded(text, decodeEvents)
  const textId = isStream(stream) ? startedMessage(stream)['id'] : undefined
  if (id === undefined || typeof textId !== 'string') return undefined
  const message = await call({
    ...common,
    url: `${url}/${encodeURIComponent(id)}`,
    limitMs: REFUSAL_LIMIT_MS,
  })
  const again = `${url}/${encodeURIComponent(textId)}?stream=true`
  const request = { ...common, url: again, about: 'the text again', endsAt: END_SEEN }
  return { message, stream: await record(endpoint, request) }
}

function idOf(answer: Answered): string | undefined {
  const id = 'body' in answer ? parseJsonObject(answer.body)?.['id'] : undefined
  return typeof id === 'string' && id !== '' ? id : undefined
}

/** Only the recorded answers of a gateway of ours break off on purpose. */
async function breakOff(endpoint: Endpoint, calls: Calls): Promise<Recorded | undefined> {
  const body = { model: BROKEN_MODEL, ...ask(PROMPTS.count) }
  const broken = await record(endpoint, calls.stream('a text that breaks off', body))
  return 'status' in broken && broken.status === 404 ? undefined : broken
}

export function callsFor({ baseUrl, key, clock }: Endpoint, model: string) {
  const url = `${baseUrl}/messages`
  const common = { url, headers: anthropicHeaders(key), limitMs: MODEL_LIMIT_MS, clock }
  return {
    url,
    common,
    plain: (body: object): HttpCall => ({ ...common, body: JSON.stringify({ model, ...body }) }),
    stream: (about: string, body: object): StreamCall => ({
      ...common,
      about,
      endsAt: END_SEEN,
      body: JSON.stringify({ model, stream: true, ...body }),
    }),
  }
}

/** The checks of a recorded server. */
export function judgeMessages(sent: MessagesRecord): Check[] {
  const { answer, count } = sent
  const text = decoded(sent.text, decodeEvents)
  const tool = decoded(sent.tool, decodeEvents)
  const streams = [text, tool].filter(isStream)
  const refusals = [sent.unknownModel, sent.malformed, sent.wrongKey]
  const answers = [answer, ...refusals].flatMap((each) => (each && 'status' in each ? [each] : []))
  return [
    plainCheck('answer', answer, messageFault, 'a complete message'),
    faultCheck('stream status', refusedFault([sent.text]), '200'),
    ...MESSAGES_RULES.map(([name, fine, rule]) =>
      faultCheck(name, firstFault(streams, rule), fine),
    ),
    streamCheck('stream text', text, missingTextFault, 'streamed'),
    toolCheck(tool),
    'status' in count && isNotOffered(count)
      ? skipped('count tokens', 'not offered')
      : plainCheck('count tokens', count, countFault, 'a count'),
    joinCheck(sent, text),
    refusalCheck('unknown model', sent.unknownModel, [404, 400], refusalFault),
    refusalCheck('malformed body', sent.malformed, [400], refusalFault),
    refusalCheck('wrong key', sent.wrongKey, [401], refusalFault),
    faultCheck('request id', requestIdsFault(answers), 'in the header of every response'),
    truncationCheck(
      sent.broken,
      'an error event, and no message_stop, when the provider breaks off',
      hasFailed,
    ),
    ...(isStream(text) ? measurements(text) : []),
  ]
}

function requestIdsFault(answers: readonly Answer[]): Fault | undefined {
  const faults = answers.map(requestIdFault)
  return faults.find((fault) => fault !== undefined)
}

function toolCheck(tool: Recorded<MessagesStream>): Check {
  const hasCall = isStream(tool) && callsOf(tool).length > 0
  return hasCall ? faultCheck('tool call', undefined, 'made') : noCallWarning(tool)
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
