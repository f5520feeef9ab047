import {
  answerFault,
  callsOf,
  measurements,
  parallelFault,
  refusalFault,
  STREAM_RULES,
  TOOL_RULES,
  textFault,
  usageFault,
} from './chat-rules.ts'
import { type Check, skipped } from './check.ts'
import {
  abortCheck,
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
  type Requests,
  record,
  refusalCheck,
  ruleChecks,
  statusCheck,
  streamCheck,
  UNKNOWN_MODEL,
  WEATHER,
  WRONG_KEY,
} from './exchange.ts'
import { bearer, call, type HttpCall } from './http.ts'
import type { StreamCall } from './recording.ts'

const ask = (content: string) => ({ messages: [{ role: 'user', content }] })
const REPEAT = ask(PROMPTS.repeat)
const { schema: parameters, ...named } = WEATHER
const TOOLS = {
  tools: [{ type: 'function', function: { ...named, parameters } }],
  tool_choice: 'required',
}

/** Tests a Chat Completions server. Requests are sequential, because the server may run one model at a time. */
export async function chatChecks(endpoint: Endpoint, model: string, models: HttpCall) {
  const options = { path: '/chat/completions', headers: bearer }
  const requests = createRequests(endpoint, model, options)
  return [
    ...(await modelChecks(endpoint, requests)),
    ...(await refusalChecks(endpoint, model, requests)),
    await abortCheck(endpoint, requests.stream('a text', REPEAT), models),
  ]
}

async function modelChecks(endpoint: Endpoint, { plain, stream }: Requests): Promise<Check[]> {
  const read = async (request: StreamCall) => decoded(await record(endpoint, request))
  const answer = await firstAnswer(endpoint, plain(REPEAT))
  const text = await read(stream('a text', REPEAT))
  const withUsage = { ...REPEAT, stream_options: { include_usage: true } }
  const usage = await read({ ...stream('a text with usage', withUsage), asksUsage: true })
  const tool = await read(stream('a tool call', { ...ask(PROMPTS.oneCall), ...TOOLS }))
  const parallel = await read(stream('two tool calls', { ...ask(PROMPTS.twoCalls), ...TOOLS }))
  return [
    plainCheck('answer', answer, answerFault, 'a chat.completion'),
    statusCheck(text, usage),
    ...ruleChecks([text, usage, tool, parallel].filter(isStream), STREAM_RULES),
    streamCheck('stream text', text, textFault, 'deltas that add up'),
    streamCheck('usage chunk', usage, usageFault, 'one, with choices: []'),
    ...toolChecks(tool, parallel),
    ...(isStream(usage) ? measurements(usage) : []),
  ]
}

function toolChecks(tool: Decoded, parallel: Decoded): Check[] {
  const streams = [tool, parallel].filter(isStream).filter((each) => callsOf(each).length > 0)
  if (streams.length === 0) return [noCallWarning(tool)]
  const name = 'parallel calls'
  const count = isStream(parallel) ? callsOf(parallel).length : 0
  return [
    ...ruleChecks(streams, TOOL_RULES),
    count < 2
      ? skipped(name, 'the model made no parallel calls')
      : streamCheck(name, parallel, parallelFault, `${count}, each with its index`),
  ]
}

async function refusalChecks({ key, onProgress }: Endpoint, model: string, { plain }: Requests) {
  onProgress('what it refuses')
  const refused = { ...plain(REPEAT), limitMs: REFUSAL_LIMIT_MS }
  const unknownModel = { ...refused, body: plain({ model: UNKNOWN_MODEL, ...REPEAT }).body }
  const malformed = { ...refused, body: `{"model": ${JSON.stringify(model)}, "messages": [` }
  const wrongKey = key === undefined ? undefined : { ...refused, headers: bearer(WRONG_KEY) }
  return [
    refusalCheck('unknown model', await call(unknownModel), [404, 400], refusalFault),
    refusalCheck('malformed body', await call(malformed), [400], refusalFault),
    refusalCheck('wrong key', wrongKey && (await call(wrongKey)), [401], refusalFault),
  ]
}
