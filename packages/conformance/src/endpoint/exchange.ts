import type { Clock } from '@turnstream/core/internal/async/clock'
import { HEADERS } from '@turnstream/core/internal/protocol/names'
import { type Check, skipped, warn } from './check.ts'
import { type Fault, faultCheck, type Rule, shown } from './fault.ts'
import { type Answer, call, type HttpCall, type NoAnswer } from './http.ts'
import { recordStream, type StreamCall, type StreamRecording } from './recording.ts'

export const APIS = ['chat', 'responses', 'messages'] as const

export type Api = (typeof APIS)[number]

export interface Endpoint {
  readonly api: Api
  /** Without a trailing slash. */
  readonly baseUrl: string
  readonly key: string | undefined
  /** Default: the first listed model. */
  readonly model: string | undefined
  readonly clock: Clock
  /** Called with the name of the current check. */
  readonly onProgress: (about: string) => void
}

/** Allows for reasoning, and for loading the model on a small machine. */
export const MODEL_LIMIT_MS = 60_000
export const REFUSAL_LIMIT_MS = 10_000

export type Answered = Answer | NoAnswer

/** What a server sent in response to a streaming request, raw or decoded. */
export type Recorded<Stream extends StreamRecording = StreamRecording> = Stream | NoAnswer

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

export function decoded<Stream extends StreamRecording>(
  recorded: Recorded,
  decode: (recording: StreamRecording) => Stream,
): Recorded<Stream> {
  return 'reason' in recorded ? recorded : decode(recorded)
}

export function isStream<Stream extends StreamRecording>(
  recorded: Recorded<Stream>,
): recorded is Stream {
  return !('reason' in recorded) && recorded.status === 200
}

/** The response received in place of a stream. */
export function refusalIn(recorded: Recorded): string {
  if ('reason' in recorded) return recorded.reason
  const body = Buffer.concat(recorded.reads.map(({ bytes }) => bytes)).toString()
  return `status ${recorded.status}: ${shown(body)}`
}

/** Applies a rule to all streams and reports the first fault, which the others likely share. */
export function firstFault<Stream extends StreamRecording>(
  streams: readonly Stream[],
  rule: Rule<Stream>,
): Fault | undefined {
  for (const stream of streams) {
    const fault = rule(stream)
    if (fault !== undefined) return { ...fault, came: `${fault.came} (requested ${stream.about})` }
  }
  return undefined
}

export function streamCheck<Stream extends StreamRecording>(
  name: string,
  recorded: Recorded<Stream>,
  rule: Rule<Stream>,
  fine: string,
): Check {
  if (!isStream(recorded)) return skipped(name, 'no stream')
  return faultCheck(name, rule(recorded), fine)
}

export function plainCheck(
  name: string,
  answer: Answered,
  rule: Rule<Answer>,
  fine: string,
): Check {
  return faultCheck(name, answeredFault(answer, rule), fine)
}

export function answeredFault(answer: Answered, rule: Rule<Answer>): Fault | undefined {
  return 'reason' in answer ? { expected: 'an answer', came: answer.reason } : rule(answer)
}

/** The fault of streams that were refused. */
export function refusedFault(streams: readonly Recorded[]): Fault | undefined {
  const refused = streams.find((stream) => !isStream(stream))
  return refused && { expected: 'status 200', came: refusalIn(refused) }
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

/** For a stream without the call that was requested. */
export function noCallWarning(tool: Recorded): Check {
  const came = isStream(tool) ? 'the model called no tool' : refusalIn(tool)
  return warn('tool call', came, 'Choose a model with tool support: --model <model>')
}

/** A disconnecting client must not crash the server. */
export async function abortCheck(
  endpoint: Endpoint,
  abandoned: StreamCall,
  next: HttpCall,
): Promise<Check> {
  const left = await record(endpoint, abandoned)
  if (!isStream(left)) return skipped('abort', 'no stream')
  return plainCheck('abort', await call(next), aliveFault, 'still responds')
}

function aliveFault({ status }: Answer): Fault | undefined {
  if (status < 500) return undefined
  return { expected: 'a response after a client disconnected', came: `status ${status}` }
}

export const WRONG_KEY = 'turnstream-doctor-wrong-key'
export const UNKNOWN_MODEL = 'turnstream-doctor-no-such-model'

/** A recorded answer of our gateways that breaks off. */
export const BROKEN_MODEL = 'scripted/error'

/** Whether a server is a gateway of ours. */
export function isTurnstream(answer: Answered): boolean {
  return 'headers' in answer && answer.headers.has(HEADERS.turnId)
}

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
