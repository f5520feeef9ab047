import type { Clock } from '../../../async/clock.ts'
import { type Answer, bearer, type Call, call, type NoAnswer } from '../../http.ts'
import { type Check, fail, ok, skipped, warn } from '../check.ts'
import { type DecodedStream, decodeStream, recordStream, type StreamCall } from './recording.ts'
import {
  answerFault,
  callsOf,
  type Fault,
  faultCheck,
  measurements,
  modelsFault,
  modelsOf,
  parallelFault,
  refusalFault,
  STREAM_RULES,
  type StreamRule,
  shown,
  TOOL_RULES,
  textFault,
  usageFault,
} from './rules.ts'

export interface Endpoint {
  /** Without a trailing slash. */
  readonly baseUrl: string
  readonly key: string | undefined
  /** Default: the first listed model. */
  readonly model: string | undefined
  readonly clock: Clock
  /** Called with the name of the current check. */
  readonly onProgress: (about: string) => void
}

type Recorded = DecodedStream | NoAnswer

/** Allows for reasoning, and for loading the model on a small machine. */
const MODEL_LIMIT_MS = 60_000
const REFUSAL_LIMIT_MS = 10_000

/** Tests a Chat Completions server. Requests are sequential, because the server may run one model at a time. */
export async function endpointChecks(endpoint: Endpoint): Promise<Check[]> {
  const { baseUrl, key, onProgress } = endpoint
  onProgress('its models')
  const models = await call(modelsCall(endpoint))
  if ('reason' in models) {
    const fix = `Check the URL: curl -v ${baseUrl}/models`
    return [fail('models', `${baseUrl} is unreachable: ${models.reason}`, fix)]
  }
  // All other requests would fail the same way.
  if (models.status === 401) {
    const verb = key === undefined ? 'asks for a key' : 'refuses the key'
    const fix = 'Set OPENAI_API_KEY or TURNSTREAM_KEY to a valid key and retry'
    return [fail('models', `it ${verb} (status 401)`, fix)]
  }
  const listed = plainCheck('models', models, modelsFault, 'a list')
  const model = endpoint.model ?? modelsOf(models.body)?.[0]
  if (model === undefined) {
    return [listed, fail('model', 'no models listed, and none given', 'Pass --model <model>')]
  }
  const calls = callsFor(endpoint, model)
  return [
    listed,
    ok('model', model),
    ...(await modelChecks(endpoint, calls)),
    ...(await refusalChecks(endpoint, calls)),
    await abortCheck(endpoint, calls),
  ]
}

async function modelChecks(endpoint: Endpoint, calls: Calls): Promise<Check[]> {
  endpoint.onProgress('an answer')
  const answer = await call(calls.answer)
  const text = await record(endpoint, calls.text)
  const usage = await record(endpoint, calls.usage)
  const tool = await record(endpoint, calls.tool)
  const parallel = await record(endpoint, calls.parallel)
  const streams = [text, usage, tool, parallel].filter(isStream)
  const refused = [text, usage].find((stream) => !isStream(stream))
  const statusFault = refused && { expected: 'status 200', came: refusalIn(refused) }
  return [
    plainCheck('answer', answer, answerFault, 'a chat.completion'),
    faultCheck('stream status', statusFault, '200'),
    ...STREAM_RULES.map(([name, fine, rule]) => faultCheck(name, firstFault(streams, rule), fine)),
    streamCheck('stream text', text, textFault, 'deltas that add up'),
    streamCheck('usage chunk', usage, usageFault, 'one, with choices: []'),
    ...toolChecks(tool, parallel),
    ...(isStream(usage) ? measurements(usage) : []),
  ]
}

async function record({ onProgress }: Endpoint, streamCall: StreamCall): Promise<Recorded> {
  onProgress(streamCall.about)
  const recorded = await recordStream(streamCall)
  return 'reason' in recorded ? recorded : decodeStream(recorded)
}

function isStream(recorded: Recorded): recorded is DecodedStream {
  return !('reason' in recorded) && recorded.status === 200
}

/** The response received in place of a stream. */
function refusalIn(recorded: Recorded): string {
  if ('reason' in recorded) return recorded.reason
  const body = Buffer.concat(recorded.reads.map(({ bytes }) => bytes)).toString()
  return `status ${recorded.status}: ${shown(body)}`
}

/** Applies a rule to all streams and reports the first fault, which the others likely share. */
function firstFault(streams: readonly DecodedStream[], rule: StreamRule): Fault | undefined {
  for (const stream of streams) {
    const fault = rule(stream)
    if (fault !== undefined) return { ...fault, came: `${fault.came} (asked for ${stream.about})` }
  }
  return undefined
}

function streamCheck(name: string, recorded: Recorded, rule: StreamRule, fine: string): Check {
  if (!isStream(recorded)) return skipped(name, 'no stream')
  return faultCheck(name, rule(recorded), fine)
}

function plainCheck(
  name: string,
  answer: Answer | NoAnswer,
  rule: (answer: Answer) => Fault | undefined,
  fine: string,
): Check {
  const fault = 'reason' in answer ? { expected: 'an answer', came: answer.reason } : rule(answer)
  return faultCheck(name, fault, fine)
}

function toolChecks(tool: Recorded, parallel: Recorded): Check[] {
  const streams = [tool, parallel].filter(isStream).filter((each) => callsOf(each).length > 0)
  if (streams.length === 0) {
    const came = isStream(tool) ? 'the model called no tool' : refusalIn(tool)
    const fix = 'Choose a model with tool support: --model <model>'
    return [warn('tool call', came, fix)]
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

const WRONG_KEY = 'turnstream-doctor-wrong-key'

async function refusalChecks({ key, onProgress }: Endpoint, calls: Calls): Promise<Check[]> {
  onProgress('what it refuses')
  return [
    await refusalCheck('unknown model', calls.unknownModel, [404, 400]),
    await refusalCheck('malformed body', calls.malformed, [400]),
    key === undefined
      ? skipped('wrong key', 'no key was given')
      : await refusalCheck('wrong key', calls.wrongKey, [401]),
  ]
}

async function refusalCheck(name: string, bad: Call, statuses: readonly number[]): Promise<Check> {
  const answer = await call(bad)
  return plainCheck(name, answer, (each) => refusalFault(each, statuses), 'refused')
}

/** A disconnecting client must not crash the server. */
async function abortCheck(endpoint: Endpoint, calls: Calls): Promise<Check> {
  const left = await record(endpoint, calls.abandoned)
  if (!isStream(left)) return skipped('abort', 'no stream')
  return plainCheck('abort', await call(modelsCall(endpoint)), aliveFault, 'still responds')
}

function aliveFault({ status }: Answer): Fault | undefined {
  if (status < 500) return undefined
  return { expected: 'a response after a client disconnected', came: `status ${status}` }
}

/** Characters of one to four bytes, each of which may be split between chunks. */
const TEXT = 'Grüße aus Zürich, 東京 und 🙂: one, two, three, four, five, six, seven, eight.'

const WEATHER = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather in a city now',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    },
  },
} as const

function ask(content: string) {
  return { messages: [{ role: 'user', content }] }
}

const REPEAT = ask(`Repeat exactly, and nothing else: ${TEXT}`)
const ONE_CALL = ask('What is the weather in Zürich? Ask the tool.')
const TWO_CALLS = ask(
  'What is the weather in Zürich, and what is it in 東京? Call the tool for both cities at the same time.',
)

function modelsCall({ baseUrl, key, clock }: Endpoint): Call {
  const url = `${baseUrl}/models`
  return { url, headers: bearer(key), limitMs: REFUSAL_LIMIT_MS, clock }
}

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
  const unknown = JSON.stringify({ model: 'turnstream-doctor-no-such-model', ...REPEAT })
  const refused = { ...common, limitMs: REFUSAL_LIMIT_MS }
  const tools = { tools: [WEATHER], tool_choice: 'required' }
  const withUsage = { ...REPEAT, stream_options: { include_usage: true } }
  return {
    answer: { ...common, body: plain },
    text: stream('a text', REPEAT),
    usage: stream('a text with usage', withUsage, true),
    tool: stream('a tool call', { ...ONE_CALL, ...tools }),
    parallel: stream('two tool calls', { ...TWO_CALLS, ...tools }),
    abandoned: { ...stream('a text that is left', REPEAT), leaves: true },
    unknownModel: { ...refused, body: unknown },
    malformed: { ...refused, body: `{"model": ${JSON.stringify(model)}, "messages": [` },
    wrongKey: { ...refused, headers: bearer(WRONG_KEY), body: plain },
  }
}
