import { parseJsonObject } from '@turnstream/core/internal/protocol/json'
import type { Check } from './check.ts'
import {
  type Answered,
  abortCheck,
  BROKEN_MODEL,
  decoded,
  type Endpoint,
  firstAnswer,
  isStream,
  isTurnstream,
  MODEL_LIMIT_MS,
  PROMPTS,
  REFUSAL_LIMIT_MS,
  type Recorded,
  record,
  UNKNOWN_MODEL,
  WEATHER,
  WRONG_KEY,
} from './exchange.ts'
import { type Call, call } from './http.ts'
import { judgeMessages, type MessagesRecord } from './messages-judge.ts'
import { startedMessage } from './messages-rules.ts'
import { decodeEvents, type StreamCall } from './recording.ts'

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
  models: Call,
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
export async function recordMessages(endpoint: Endpoint, calls: Calls): Promise<MessagesRecord> {
  const { onProgress, key } = endpoint
  const answer = await firstAnswer(endpoint, calls.plain(ask(PROMPTS.repeat)))
  const text = await record(endpoint, calls.stream('a text', ask(PROMPTS.repeat)))
  const tools = { tools: [TOOL], tool_choice: { type: 'any' } }
  const asksTool = { ...ask(PROMPTS.oneCall), ...tools }
  const tool = await record(endpoint, calls.stream('a tool call', asksTool))
  onProgress('a count of tokens')
  const { messages } = ask(PROMPTS.repeat)
  const count = await call({ ...calls.plain({ messages }), url: `${calls.url}/count_tokens` })
  const joined = await join(endpoint, calls, { answer, text })
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

async function join(
  endpoint: Endpoint,
  { common, url }: Calls,
  { answer, text }: Pick<MessagesRecord, 'answer' | 'text'>,
): Promise<MessagesRecord['joined']> {
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
    plain: (body: object): Call => ({ ...common, body: JSON.stringify({ model, ...body }) }),
    stream: (about: string, body: object): StreamCall => ({
      ...common,
      about,
      endsAt: END_SEEN,
      body: JSON.stringify({ model, stream: true, ...body }),
    }),
  }
}
