import { type Check, fail, ok, skipped, warn } from '../check.ts'
import {
  answerFault,
  modelsFault,
  modelsOf,
  type PlainAnswer,
  refusalFault,
} from './answer-rules.ts'
import {
  callPlain,
  type NoAnswer,
  REFUSAL_LIMIT_MS,
  recordStream,
  type StreamCall,
  type Target,
} from './call.ts'
import { type Fault, faultCheck, shown } from './fault.ts'
import { measurements } from './measurements.ts'
import { type DecodedStream, decodeStream } from './recording.ts'
import { requestsFor } from './requests.ts'
import { STREAM_RULES, textFault, usageFault } from './stream-rules.ts'
import {
  argumentsFault,
  callsOf,
  openingFault,
  parallelFault,
  toolFinishFault,
  toolIndexFault,
} from './tool-rules.ts'

export interface EndpointLook extends Target {
  /** The first of the list unless given. */
  readonly model: string | undefined
  /** Told what is being asked for. */
  readonly onProgress: (about: string) => void
}

type Requests = ReturnType<typeof requestsFor>
type Recorded = DecodedStream | NoAnswer

const MODELS = { path: '/models', limitMs: REFUSAL_LIMIT_MS }

/** Whether a server speaks Chat Completions as clients expect it. One call after another: it may have one model. */
export async function endpointChecks(look: EndpointLook): Promise<Check[]> {
  look.onProgress('its models')
  const models = await callPlain(look, MODELS)
  if ('reason' in models) {
    const fix = `See whether it is the right address: curl -v ${look.baseUrl}/models`
    return [fail('models', `${look.baseUrl} cannot be reached: ${models.reason}`, fix)]
  }
  if (models.status === 401) return [refusedKey(look)]
  const listed = plainCheck('models', models, modelsFault, 'a list')
  const model = look.model ?? modelsOf(models.body)?.[0]
  if (model === undefined) {
    return [listed, fail('model', 'it lists none, and none was named', 'Name one: --model <model>')]
  }
  return [
    listed,
    ok('model', model),
    ...(await modelChecks(look, requestsFor(model))),
    ...(await refusalChecks(look, requestsFor(model))),
    await abortCheck(look, requestsFor(model)),
  ]
}

/** Nothing else can be asked without one that it knows. */
function refusedKey({ key }: EndpointLook): Check {
  const found =
    key === undefined ? 'it asks for a key (status 401)' : 'it refuses the key (status 401)'
  const fix = 'Put a key that it knows into OPENAI_API_KEY or TURNSTREAM_KEY, and ask again'
  return fail('models', found, fix)
}

async function modelChecks(look: EndpointLook, requests: Requests): Promise<Check[]> {
  look.onProgress('an answer')
  const answer = await callPlain(look, requests.answer)
  const text = await record(look, requests.text)
  const usage = await record(look, requests.usage)
  const tool = await record(look, requests.tool)
  const parallel = await record(look, requests.parallel)
  const streams = [text, usage, tool, parallel].filter(isStream)
  return [
    plainCheck('answer', answer, answerFault, 'a chat.completion'),
    statusCheck([text, usage]),
    ...STREAM_RULES.map(([name, fine, rule]) => faultCheck(name, firstFault(streams, rule), fine)),
    streamCheck('stream text', text, textFault, 'deltas that add up'),
    streamCheck('usage chunk', usage, usageFault, 'one, with choices: []'),
    ...toolChecks(tool, parallel),
    ...(isStream(usage) ? measurements(usage) : []),
  ]
}

async function record(look: EndpointLook, call: StreamCall): Promise<Recorded> {
  look.onProgress(call.about)
  const recorded = await recordStream(look, call)
  return 'reason' in recorded ? recorded : decodeStream(recorded)
}

function isStream(recorded: Recorded): recorded is DecodedStream {
  return !('reason' in recorded) && recorded.status === 200
}

/** What came in place of a stream. */
function refusalIn(recorded: Recorded): string {
  if ('reason' in recorded) return recorded.reason
  const bytes = recorded.reads.flatMap((read) => [...read.bytes])
  return `status ${recorded.status}: ${shown(new TextDecoder().decode(new Uint8Array(bytes)))}`
}

function statusCheck(streams: readonly Recorded[]): Check {
  const refused = streams.find((stream) => !isStream(stream))
  const fault = refused && { expected: 'status 200', came: refusalIn(refused) }
  return faultCheck('stream status', fault, '200')
}

/** One rule for all streams: what is wrong with the first is likely to be wrong with all. */
function firstFault(
  streams: readonly DecodedStream[],
  rule: (stream: DecodedStream) => Fault | undefined,
): Fault | undefined {
  for (const stream of streams) {
    const fault = rule(stream)
    if (fault !== undefined) return { ...fault, came: `${fault.came} (asked for ${stream.about})` }
  }
  return undefined
}

function streamCheck(
  name: string,
  recorded: Recorded,
  rule: (stream: DecodedStream) => Fault | undefined,
  fine: string,
): Check {
  if (!isStream(recorded)) return skipped(name, 'there was no stream')
  return faultCheck(name, rule(recorded), fine)
}

function plainCheck(
  name: string,
  answer: PlainAnswer | NoAnswer,
  rule: (answer: PlainAnswer) => Fault | undefined,
  fine: string,
): Check {
  const fault = 'reason' in answer ? { expected: 'an answer', came: answer.reason } : rule(answer)
  return faultCheck(name, fault, fine)
}

const TOOL_RULES = [
  ['tool call', 'id and name first', openingFault],
  ['tool index', 'in every fragment', toolIndexFault],
  ['tool arguments', 'a JSON object', argumentsFault],
  ['tool finish', 'tool_calls', toolFinishFault],
] as const

function toolChecks(tool: Recorded, parallel: Recorded): Check[] {
  const streams = [tool, parallel].filter(isStream).filter((each) => callsOf(each).length > 0)
  if (streams.length === 0) {
    const came = isStream(tool) ? 'the model called none' : refusalIn(tool)
    const fix = 'If it should know tools, name a model that does: --model <model>'
    return [warn('tool call', came, fix)]
  }
  return [
    ...TOOL_RULES.map(([name, fine, rule]) => faultCheck(name, firstFault(streams, rule), fine)),
    parallelCheck(parallel),
  ]
}

function parallelCheck(parallel: Recorded): Check {
  const name = 'parallel calls'
  const calls = isStream(parallel) ? callsOf(parallel).length : 0
  if (!isStream(parallel) || calls < 2) return skipped(name, 'the model made no two calls at once')
  return faultCheck(name, parallelFault(parallel), `${calls}, each with its index`)
}

async function refusalChecks(look: EndpointLook, requests: Requests): Promise<Check[]> {
  look.onProgress('what it refuses')
  const unknown = await callPlain(look, requests.unknownModel)
  const malformed = await callPlain(look, requests.malformed)
  return [
    plainCheck('unknown model', unknown, (each) => refusalFault(each, [404, 400]), 'refused'),
    plainCheck('malformed body', malformed, (each) => refusalFault(each, [400]), 'refused'),
    await wrongKeyCheck(look, requests),
  ]
}

const WRONG_KEY = 'turnstream-doctor-wrong-key'

async function wrongKeyCheck(look: EndpointLook, { wrongKey }: Requests): Promise<Check> {
  if (look.key === undefined) return skipped('wrong key', 'no key was given')
  const answer = await callPlain(look, { ...wrongKey, key: WRONG_KEY })
  return plainCheck('wrong key', answer, (each) => refusalFault(each, [401]), 'refused')
}

/** A client that leaves in the middle must not take the server with it. */
async function abortCheck(look: EndpointLook, { abandoned }: Requests): Promise<Check> {
  const left = await record(look, abandoned)
  if (!isStream(left)) return skipped('abort', 'there was no stream')
  const after = await callPlain(look, MODELS)
  return plainCheck('abort', after, ({ status }) => aliveFault(status), 'it goes on')
}

function aliveFault(status: number): Fault | undefined {
  if (status < 500) return undefined
  return { expected: 'an answer after a stream was left', came: `status ${status}` }
}
