import { type Check, skipped } from './check.ts'
import {
  type Answered,
  abortCheck,
  answeredFault,
  createRequests,
  type Decoded,
  decoded,
  type Endpoint,
  firstAnswer,
  isStream,
  noCallWarning,
  PROMPTS,
  plainCheck,
  REFUSAL_LIMIT_MS,
  type Recorded,
  type Requests,
  record,
  recordBroken,
  refusalCheck,
  refusalIn,
  ruleChecks,
  statusCheck,
  streamCheck,
  truncationCheck,
  UNKNOWN_MODEL,
  WEATHER,
  WRONG_KEY,
} from './exchange.ts'
import { type Fault, faultCheck, firstOf, isWord, jsonIn, shown } from './fault.ts'
import { call, type HttpCall } from './http.ts'
import {
  callsOf,
  countFault,
  MESSAGES_RULES,
  measurements,
  messageFault,
  missingTextFault,
  refusalFault,
  requestIdFault,
  startedMessage,
  streamedText,
  textOf,
} from './messages-rules.ts'
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

const COUNT = ask(PROMPTS.count)
const REPEAT = ask(PROMPTS.repeat)

const END_SEEN = /^event: ?(?:message_stop|error)\r?$/m

/** Tests a server of the Messages API. Requests are sequential: the server may run one model at a time. */
export async function messagesChecks(endpoint: Endpoint, model: string, models: HttpCall) {
  const requests = messagesRequests(endpoint, model)
  const recorded = await recordMessages(endpoint, requests)
  const abort = await abortCheck(endpoint, requests.stream('a text', COUNT), models)
  return [...judgeMessages(recorded), abort]
}

export function messagesRequests(endpoint: Endpoint, model: string): Requests {
  const options = { path: '/messages', headers: anthropicHeaders, endsAt: END_SEEN }
  return createRequests(endpoint, model, options)
}

export async function recordMessages(endpoint: Endpoint, requests: Requests) {
  const { onProgress, key } = endpoint
  const { plain, stream } = requests
  const answer = await firstAnswer(endpoint, plain(REPEAT))
  const text = await record(endpoint, stream('a text', REPEAT))
  const tools = { tools: [TOOL], tool_choice: { type: 'any' } }
  const tool = await record(endpoint, stream('a tool call', { ...ask(PROMPTS.oneCall), ...tools }))
  onProgress('a count of tokens')
  const countable = plain({ messages: REPEAT.messages })
  const count = await call({ ...countable, url: `${countable.url}/count_tokens` })
  // `answer` and `text` again.
  const joined = await join(endpoint, requests, answer, text)
  onProgress('what it refuses')
  const wrong = { ...plain(COUNT), headers: anthropicHeaders(WRONG_KEY) }
  return {
    answer,
    text,
    tool,
    count,
    joined,
    unknownModel: await call(plain({ model: UNKNOWN_MODEL, ...COUNT })),
    malformed: await call({ ...plain({}), body: '{"messages": [' }),
    wrongKey: key === undefined ? undefined : await call(wrong),
    broken: await recordBroken(endpoint, answer, requests, COUNT),
  }
}

export type MessagesRecord = Awaited<ReturnType<typeof recordMessages>>

async function join(endpoint: Endpoint, { common }: Requests, answer: Answered, text: Recorded) {
  const id = jsonIn(answer)?.['id']
  const stream = decoded(text)
  const textId = isStream(stream) ? startedMessage(stream)['id'] : undefined
  if (!isWord(id) || typeof textId !== 'string') return undefined
  const urlOf = (messageId: unknown) => `${common.url}/${encodeURIComponent(String(messageId))}`
  const message = await call({ ...common, url: urlOf(id), limitMs: REFUSAL_LIMIT_MS })
  const again = { ...common, url: `${urlOf(textId)}?stream=true`, about: 'the text again' }
  return { message, stream: await record(endpoint, again) }
}

export function judgeMessages(sent: MessagesRecord): Check[] {
  const { answer, count } = sent
  const text = decoded(sent.text)
  const tool = decoded(sent.tool)
  const refusals = [sent.unknownModel, sent.malformed, sent.wrongKey]
  const answers = [answer, ...refusals].flatMap((each) => (each && 'status' in each ? [each] : []))
  return [
    plainCheck('answer', answer, messageFault, 'a complete message'),
    statusCheck(sent.text),
    ...ruleChecks([text, tool].filter(isStream), MESSAGES_RULES),
    streamCheck('stream text', text, missingTextFault, 'streamed'),
    isStream(tool) && callsOf(tool).length > 0
      ? faultCheck('tool call', undefined, 'made')
      : noCallWarning(tool),
    'status' in count && isNotOffered(count)
      ? skipped('count tokens', 'not offered')
      : plainCheck('count tokens', count, countFault, 'a count'),
    joinCheck(sent, text),
    refusalCheck('unknown model', sent.unknownModel, [404, 400], refusalFault),
    refusalCheck('malformed body', sent.malformed, [400], refusalFault),
    refusalCheck('wrong key', sent.wrongKey, [401], refusalFault),
    faultCheck('request id', firstOf(answers, requestIdFault), 'in the header of every response'),
    truncationCheck(
      sent.broken,
      'an error event, and no message_stop, when the provider breaks off',
      (types) => types.includes('error') && !types.includes('message_stop'),
    ),
    ...(isStream(text) ? measurements(text) : []),
  ]
}

/** Reading a message again is an extension of turnstream. */
function joinCheck({ answer, joined }: MessagesRecord, text: Decoded): Check {
  const name = 'join'
  if (joined === undefined) return skipped(name, 'no message')
  const { message, stream } = joined
  if ('status' in message && isNotOffered(message)) {
    return skipped(name, 'not offered: an extension of turnstream')
  }
  const fault =
    answeredFault(message, (each) => {
      const isSame = 'body' in answer && textOf(jsonIn(each)) === textOf(jsonIn(answer))
      const changed = { expected: 'the message that was sent', came: shown(each.body) }
      return messageFault(each) ?? (isSame ? undefined : changed)
    }) ?? joinFault(decoded(stream), text)
  return faultCheck(name, fault, 'the same message and stream (an extension of turnstream)')
}

function joinFault(again: Decoded, text: Decoded): Fault | undefined {
  const expected = 'the stream again, from its start'
  if (!isStream(again)) return { expected, came: refusalIn(again) }
  if (!isStream(text)) return undefined
  const fault = firstOf(MESSAGES_RULES, ([, , rule]) => rule(again))
  const isSame =
    streamedText(again) === streamedText(text) &&
    startedMessage(again)['id'] === startedMessage(text)['id']
  return fault ?? (isSame ? undefined : { expected, came: shown(streamedText(again)) })
}
