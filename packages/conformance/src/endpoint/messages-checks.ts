import { type Check, skipped } from './check.ts'
import {
  type Answered,
  answeredFault,
  type Decoded,
  decoded,
  type Endpoint,
  isStream,
  noCallWarning,
  PROMPTS,
  plainCheck,
  REFUSAL_LIMIT_MS,
  type Recorded,
  refusalCheck,
  refusalIn,
  ruleChecks,
  statusCheck,
  streamCheck,
  Tester,
  truncationCheck,
  WEATHER,
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

const ask = (content: string) => ({ max_tokens: MAX_TOKENS, messages: [{ role: 'user', content }] })

const COUNT = ask(PROMPTS.count)
const REPEAT = ask(PROMPTS.repeat)

const END_SEEN = /^event: ?(?:message_stop|error)\r?$/m

/** Tests a server of the Messages API. Requests are sequential: the server may run one model at a time. */
export async function messagesChecks(endpoint: Endpoint, model: string, models: HttpCall) {
  const tester = messagesTester(endpoint, model)
  const recorded = await recordMessages(tester)
  return [...judgeMessages(recorded), await tester.abortCheck(COUNT, models)]
}

export function messagesTester(endpoint: Endpoint, model: string): Tester {
  const options = { path: '/messages', headers: anthropicHeaders, endsAt: END_SEEN }
  return new Tester(endpoint, model, options)
}

export async function recordMessages(tester: Tester) {
  const answer = await tester.firstAnswer(REPEAT)
  const text = await tester.record(tester.stream('a text', REPEAT))
  const tools = { tools: [TOOL], tool_choice: { type: 'any' } }
  const asking = tester.stream('a tool call', { ...ask(PROMPTS.oneCall), ...tools })
  const tool = await tester.record(asking)
  tester.endpoint.onProgress('a count of tokens')
  const countable = tester.plain({ messages: REPEAT.messages })
  const count = await call({ ...countable, url: `${countable.url}/count_tokens` })
  // `answer` and `text` again.
  const joined = await join(tester, answer, text)
  return {
    answer,
    text,
    tool,
    count,
    joined,
    ...(await tester.recordRefusals(COUNT, 'messages')),
    broken: await tester.recordBroken(answer, COUNT),
  }
}

export type MessagesRecord = Awaited<ReturnType<typeof recordMessages>>

async function join(tester: Tester, answer: Answered, text: Recorded) {
  const { common } = tester
  const id = jsonIn(answer)?.['id']
  const stream = decoded(text)
  const textId = isStream(stream) ? startedMessage(stream)['id'] : undefined
  if (!isWord(id) || typeof textId !== 'string') return undefined
  const urlOf = (messageId: unknown) => `${common.url}/${encodeURIComponent(String(messageId))}`
  const message = await call({ ...common, url: urlOf(id), limitMs: REFUSAL_LIMIT_MS })
  const again = { ...common, url: `${urlOf(textId)}?stream=true`, about: 'the text again' }
  return { message, stream: await tester.record(again) }
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
