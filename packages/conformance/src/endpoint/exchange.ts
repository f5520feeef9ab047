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

interface TesterOptions {
  readonly path: string
  readonly headers: (key: string | undefined) => Readonly<Record<string, string>>
  /** The last thing that the server sends. `[DONE]` by default. */
  readonly endsAt?: RegExp
}

/** The first request got no response. The others would wait as long. */
export class Unanswered extends Error {}

/** A recorded answer of our gateways that breaks off. */
const BROKEN_MODEL = 'scripted/error'

/** Makes the requests to a route that calls the model. */
export class Tester {
  readonly endpoint: Endpoint
  /** What all requests have. */
  readonly common: HttpCall & { readonly limitMs: number }
  readonly #model: string
  readonly #headers: TesterOptions['headers']

  constructor(endpoint: Endpoint, model: string, { path, headers, ...end }: TesterOptions) {
    const { baseUrl, key, clock } = endpoint
    const url = baseUrl + path
    this.endpoint = endpoint
    this.common = { url, headers: headers(key), limitMs: MODEL_LIMIT_MS, clock, ...end }
    this.#model = model
    this.#headers = headers
  }

  plain(body: object): HttpCall {
    return { ...this.common, body: JSON.stringify({ model: this.#model, ...body }) }
  }

  stream(about: string, body: object): StreamCall {
    return { ...this.common, ...this.plain({ stream: true, ...body }), about }
  }

  async firstAnswer(body: object): Promise<Answered> {
    this.endpoint.onProgress('an answer')
    const answer = await call(this.plain(body))
    if ('reason' in answer) throw new Unanswered(answer.reason)
    return answer
  }

  async record(streamCall: StreamCall): Promise<Recorded> {
    this.endpoint.onProgress(streamCall.about)
    return recordStream(streamCall)
  }

  /** Records a stream whose provider breaks off. Only the recorded answers of a gateway of ours do so on purpose. */
  async recordBroken(answer: Answered, prompt: object): Promise<Recorded | undefined> {
    const isTurnstream = 'headers' in answer && answer.headers.has(HEADERS.turnId)
    if (!isTurnstream) return undefined
    const request = this.stream('a text that breaks off', { model: BROKEN_MODEL, ...prompt })
    const broken = await this.record(request)
    return 'status' in broken && broken.status === 404 ? undefined : broken
  }

  quick(request: HttpCall): Promise<Answered> {
    return call({ ...request, limitMs: REFUSAL_LIMIT_MS })
  }

  /** What every API refuses. `field` is the one of the prompt. */
  async recordRefusals(prompt: object, field: 'messages' | 'input') {
    const { key, onProgress } = this.endpoint
    onProgress('what it refuses')
    const malformed = `{"model": ${JSON.stringify(this.#model)}, "${field}": [`
    const wrong = { ...this.plain(prompt), headers: this.#headers(WRONG_KEY) }
    return {
      unknownModel: await this.quick(this.plain({ model: UNKNOWN_MODEL, ...prompt })),
      malformed: await this.quick({ ...this.common, body: malformed }),
      wrongKey: key === undefined ? undefined : await this.quick(wrong),
    }
  }

  /** Leaves the stream of a text. A disconnecting client must not crash the server. */
  async abortCheck(prompt: object, next: HttpCall) {
    const text = this.stream('a text, then disconnecting', prompt)
    const left = await this.record({ ...text, leavesAt: /./ })
    if (!isStream(left)) return skipped('abort', 'no stream')
    return plainCheck('abort', await call(next), aliveFault, 'still responds')
  }
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
export function ruleChecks(streams: readonly SseRecording[], rules: readonly NamedRule[]): Check[] {
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

const aliveFault = expecting<Answer>('a response after a client disconnected', ({ status }) =>
  status < 500 ? undefined : `status ${status}`,
)

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

const WRONG_KEY = 'turnstream-doctor-wrong-key'
const UNKNOWN_MODEL = 'turnstream-doctor-no-such-model'

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
