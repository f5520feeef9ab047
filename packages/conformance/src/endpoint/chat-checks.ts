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
  decoded,
  type Endpoint,
  firstAnswer,
  firstFault,
  isStream,
  MODEL_LIMIT_MS,
  noCallWarning,
  PROMPTS,
  plainCheck,
  REFUSAL_LIMIT_MS,
  type Recorded,
  record,
  refusalCheck,
  refusedFault,
  streamCheck,
  UNKNOWN_MODEL,
  WEATHER,
  WRONG_KEY,
} from './exchange.ts'
import { faultCheck } from './fault.ts'
import { bearer, call, type HttpCall } from './http.ts'
import { type DecodedStream, decodeStream, type StreamCall } from './recording.ts'

/** Tests a Chat Completions server. Requests are sequential, because the server may run one model at a time. */
export async function chatChecks(
  endpoint: Endpoint,
  model: string,
  models: HttpCall,
): Promise<Check[]> {
  const calls = callsFor(endpoint, model)
  return [
    ...(await modelChecks(endpoint, calls)),
    ...(await refusalChecks(endpoint, calls)),
    await abortCheck(endpoint, calls.abandoned, models),
  ]
}

async function modelChecks(endpoint: Endpoint, calls: Calls): Promise<Check[]> {
  const answer = await firstAnswer(endpoint, calls.answer)
  const text = decoded(await record(endpoint, calls.text), decodeStream)
  const usage = decoded(await record(endpoint, calls.usage), decodeStream)
  const tool = decoded(await record(endpoint, calls.tool), decodeStream)
  const parallel = decoded(await record(endpoint, calls.parallel), decodeStream)
  const streams = [text, usage, tool, parallel].filter(isStream)
  return [
    plainCheck('answer', answer, answerFault, 'a chat.completion'),
    faultCheck('stream status', refusedFault([text, usage]), '200'),
    ...STREAM_RULES.map(([name, fine, rule]) => faultCheck(name, firstFault(streams, rule), fine)),
    streamCheck('stream text', text, textFault, 'deltas that add up'),
    streamCheck('usage chunk', usage, usageFault, 'one, with choices: []'),
    ...toolChecks(tool, parallel),
    ...(isStream(usage) ? measurements(usage) : []),
  ]
}

function toolChecks(tool: Recorded<DecodedStream>, parallel: Recorded<DecodedStream>): Check[] {
  const streams = [tool, parallel].filter(isStream).filter((each) => callsOf(each).length > 0)
  if (streams.length === 0) {
    return [noCallWarning(tool)]
  }
  const name = 'parallel calls'
  const count = isStream(parallel) ? callsOf(parallel).length : 0
  return [
    ...TOOL_RULES.map(([each, fine, rule]) => faultCheck(each, firstFault(streams, rule), fine)),
    count < 2
      ? skipped(name, 'the model made no parallel calls')
      : streamCheck(name, parallel, parallelFault, `${count}, each with its index`),
  ]
}

async function refusalChecks({ key, onProgress }: Endpoint, calls: Calls): Promise<Check[]> {
  onProgress('what it refuses')
  return [
    refusalCheck('unknown model', await call(calls.unknownModel), [404, 400], refusalFault),
    refusalCheck('malformed body', await call(calls.malformed), [400], refusalFault),
    refusalCheck(
      'wrong key',
      key === undefined ? undefined : await call(calls.wrongKey),
      [401],
      refusalFault,
    ),
  ]
}

function ask(content: string) {
  return { messages: [{ role: 'user', content }] }
}

const REPEAT = ask(PROMPTS.repeat)
const ONE_CALL = ask(PROMPTS.oneCall)
const TWO_CALLS = ask(PROMPTS.twoCalls)
const { schema: parameters, ...named } = WEATHER
const TOOL = { type: 'function', function: { ...named, parameters } }

type Calls = ReturnType<typeof callsFor>

/** The requests sent to the model. */
function callsFor({ baseUrl, key, clock }: Endpoint, model: string) {
  const url = `${baseUrl}/chat/completions`
  const common = { url, headers: bearer(key), limitMs: MODEL_LIMIT_MS, clock }
  const stream = (about: string, body: object, asksUsage = false): StreamCall => ({
    ...common,
    about,
    asksUsage,
    body: JSON.stringify({ model, stream: true, ...body }),
  })
  const plain = JSON.stringify({ model, ...REPEAT })
  const unknown = JSON.stringify({ model: UNKNOWN_MODEL, ...REPEAT })
  const refused = { ...common, limitMs: REFUSAL_LIMIT_MS }
  const tools = { tools: [TOOL], tool_choice: 'required' }
  const withUsage = { ...REPEAT, stream_options: { include_usage: true } }
  return {
    answer: { ...common, body: plain },
    text: stream('a text', REPEAT),
    usage: stream('a text with usage', withUsage, true),
    tool: stream('a tool call', { ...ONE_CALL, ...tools }),
    parallel: stream('two tool calls', { ...TWO_CALLS, ...tools }),
    abandoned: { ...stream('a text, then disconnecting', REPEAT), leavesAt: /./ },
    unknownModel: { ...refused, body: unknown },
    malformed: { ...refused, body: `{"model": ${JSON.stringify(model)}, "messages": [` },
    wrongKey: { ...refused, headers: bearer(WRONG_KEY), body: plain },
  }
}
