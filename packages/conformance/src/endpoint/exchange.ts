import type { Clock } from '@turnstream/core/internal/async/clock'
import { HEADERS } from '@turnstream/core/internal/protocol/names'
import { type Check, skipped, warn } from './check.ts'
import {
  expecting,
  type Fault,
  type Finding,
  faultCheck,
  firstOf,
  type NamedRule,
  type Rule,
  shown,
} from './fault.ts'
import { type Answer, call, type HttpCall, type NoAnswer } from './http.ts'
import {
  decodeEvents,
  recordStream,
  type SseRecording,
  type StreamCall,
  type StreamRecording,
} from './recording.ts'

export const APIS = ['chat', 'responses', 'messages'] as const

export type Api = (typeof APIS)[number]

export interface Endpoint {
  readonly api: Api
  readonly baseUrl: string
  readonly key: string | undefined
  readonly model: string | undefined
  readonly clock: Clock
  readonly onProgress: (about: string) => void
}

/** Allows for reasoning, and for loading the model on a small machine. */
export const MODEL_LIMIT_MS = 60_000
export const REFUSAL_LIMIT_MS = 10_000

export type Answered = Answer | NoAnswer

export type Recorded = StreamRecording | NoAnswer
export type Decoded = SseRecording | NoAnswer

interface RequestOptions {
  readonly path: string
  readonly headers: (key: string | undefined) => Readonly<Record<string, string>>
  /** The last thing that the server sends. `[DONE]` by default. */
  readonly endsAt?: RegExp
}

/** Builds the requests to a route that calls the model. `common` is what all of them have. */
export function createRequests(
  { baseUrl, key, clock }: Endpoint,
  model: string,
  { path, headers, ...end }: RequestOptions,
) {
  const url = baseUrl + path
  const common = { url, headers: headers(key), limitMs: MODEL_LIMIT_MS, clock, ...end }
  const encode = (body: object) => JSON.stringify({ model, ...body })
  return {
    common,
    plain: (body: object): HttpCall => ({ ...common, body: encode(body) }),
    stream: (about: string, body: object): StreamCall => ({
      ...common,
      about,
      body: encode({ stream: true, ...body }),
    }),
  }
}

export type Requests = ReturnType<typeof createRequests>

/** The first request got no response. The others would wait as long. */
export class Unanswered extends Error {}

export async function firstAnswer({ onProgress }: Endpoint, plain: HttpCall): Promise<Answered> {
  onProgress('an answer')
  const answer = await call(plain)
  if ('reason' in answer) throw new Unanswered(answer.reason)
  return answer
}

export async function record({ onProgress }: Endpoint, streamCall: StreamCall): Promise<Recorded> {
  onProgress(streamCall.about)
  return recordStream(streamCall)
}

export function decoded(recorded: Recorded): Decoded {
  return 'reason' in recorded ? recorded : decodeEvents(recorded)
}

export function isStream<Stream extends StreamRecording>(
  recorded: Stream | NoAnswer,
): recorded is Stream {
  return !('reason' in recorded) && recorded.status === 200
}

export function refusalIn(recorded: Recorded): string {
  if ('reason' in recorded) return recorded.reason
  const body = Buffer.concat(recorded.reads.map(({ bytes }) => bytes)).toString()
  return `status ${recorded.status}: ${shown(body)}`
}

/** Applies each rule to all streams, and reports its first fault, which the others likely share. */
export function ruleChecks(
  streams: readonly SseRecording[],
  rules: readonly NamedRule<SseRecording>[],
): Check[] {
  return rules.map(([name, fine, rule]) => {
    const fault = firstOf(streams, (stream) => {
      const found = rule(stream)
      return found && { ...found, came: `${found.came} (requested ${stream.about})` }
    })
    return faultCheck(name, fault, fine)
  })
}

export function streamCheck(name: string, stream: Decoded, rule: Rule<SseRecording>, fine: string) {
  return isStream(stream) ? faultCheck(name, rule(stream), fine) : skipped(name, 'no stream')
}

export function plainCheck(name: string, answer: Answered, rule: Rule<Answer>, fine: string) {
  return faultCheck(name, answeredFault(answer, rule), fine)
}

export function answeredFault(answer: Answered, rule: Rule<Answer>): Fault | undefined {
  return 'reason' in answer ? { expected: 'an answer', came: answer.reason } : rule(answer)
}

export function statusCheck(...streams: readonly Recorded[]): Check {
  const refused = streams.find((stream) => !isStream(stream))
  const fault = refused && { expected: 'status 200', came: refusalIn(refused) }
  return faultCheck('stream status', fault, '200')
}

/** Checks that a server refuses a request with one of these statuses. Undefined: it needs a key. */
export function refusalCheck(
  name: string,
  answer: Answered | undefined,
  statuses: readonly number[],
  rule: (answer: Answer, statuses: readonly number[]) => Fault | undefined,
): Check {
  if (answer === undefined) return skipped(name, 'no key was given')
  return plainCheck(name, answer, (each) => rule(each, statuses), 'refused')
}

export function noCallWarning(tool: Recorded): Check {
  const came = isStream(tool) ? 'the model called no tool' : refusalIn(tool)
  return warn('tool call', came, 'Choose a model with tool support: --model <model>')
}

/** Leaves the stream of a text. A disconnecting client must not crash the server. */
export async function abortCheck(endpoint: Endpoint, text: StreamCall, next: HttpCall) {
  const about = 'a text, then disconnecting'
  const left = await record(endpoint, { ...text, about, leavesAt: /./ })
  if (!isStream(left)) return skipped('abort', 'no stream')
  return plainCheck('abort', await call(next), aliveFault, 'still responds')
}

const aliveFault = expecting<Answer>('a response after a client disconnected', ({ status }) =>
  status < 500 ? undefined : `status ${status}`,
)

/** A recorded answer of our gateways that breaks off. */
const BROKEN_MODEL = 'scripted/error'

/** Records a stream whose provider breaks off. Only the recorded answers of a gateway of ours do so on purpose. */
export async function recordBroken(
  endpoint: Endpoint,
  answer: Answered,
  { stream }: Requests,
  prompt: object,
): Promise<Recorded | undefined> {
  const isTurnstream = 'headers' in answer && answer.headers.has(HEADERS.turnId)
  if (!isTurnstream) return undefined
  const request = stream('a text that breaks off', { model: BROKEN_MODEL, ...prompt })
  const broken = await record(endpoint, request)
  return 'status' in broken && broken.status === 404 ? undefined : broken
}

/** Checks a stream whose provider broke off. Most clients take one that just stops for a complete answer. */
export function truncationCheck(
  broken: Recorded | undefined,
  expected: string,
  hasFailed: (types: readonly unknown[]) => boolean,
): Check {
  const name = 'truncation'
  if (broken === undefined)
    return skipped(name, 'not testable: it needs a provider that breaks off')
  const stream = decoded(broken)
  const find = (): Finding => {
    if ('reason' in stream) return stream.reason
    const types = stream.events.map(({ json }) => json['type'])
    if (stream.status >= 400 || hasFailed(types)) return undefined
    return `a stream that ends with ${shown(types.at(-1))}`
  }
  return faultCheck(name, expecting(expected, find)(undefined), 'an error event')
}

export const WRONG_KEY = 'turnstream-doctor-wrong-key'
export const UNKNOWN_MODEL = 'turnstream-doctor-no-such-model'

/** Characters of one to four bytes, each of which may be split between events. */
const TEXT = 'Grüße aus Zürich, 東京 und 🙂: one, two, three, four, five, six, seven, eight.'

export const PROMPTS = {
  repeat: `Repeat exactly, and nothing else: ${TEXT}`,
  count: 'Count from one to ten in words, and say nothing else.',
  countLong: 'Count from one to five hundred in words, and say nothing else.',
  oneCall: 'What is the weather in Zürich? Ask the tool.',
  twoCalls:
    'What is the weather in Zürich, and what is it in 東京? HttpCall the tool for both cities at the same time.',
} as const

export const WEATHER = {
  name: 'get_weather',
  description: 'The weather in a city now',
  schema: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
} as const
