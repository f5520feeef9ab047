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
import { bearer, call, type HttpCall } from './http.ts'
import { decodeEvents, type StreamCall } from './recording.ts'
import { judgeResponses, type ResponsesRecord } from './responses-judge.ts'
import { responseIn } from './responses-object.ts'
import { comparable, numberOf, responseId } from './responses-rules.ts'
import { offersBackground } from './responses-stored.ts'

const { schema: parameters, ...named } = WEATHER
const TOOL = { type: 'function', ...named, parameters }

/** Three items, so that the list of them has pages. */
const CONVERSATION = [
  { role: 'user', content: 'My name is Ada.' },
  { role: 'assistant', content: 'Hello, Ada.' },
  { role: 'user', content: PROMPTS.repeat },
]

/** Tests a server of the Responses API. Requests are sequential: the server may run one model at a time. */
export async function responsesChecks(
  endpoint: Endpoint,
  model: string,
  models: HttpCall,
): Promise<Check[]> {
  const tester = new ResponsesTester(endpoint, model)
  const recorded = await tester.record()
  await tester.cleanUp(recorded)
  const abandoned = {
    ...tester.stream('a text, then disconnecting', { input: PROMPTS.count }),
    leavesAt: /./,
  }
  const abort = await abortCheck(endpoint, abandoned, models)
  return [...judgeResponses(recorded), abort]
}

/** How many numbers a stream is resumed after. Longer streams are sampled. */
const MAX_RESUMED = 32

const POLL_MS = 250

/** Asks a server for everything that the checks need. */
export class ResponsesTester {
  readonly #endpoint: Endpoint
  readonly #model: string
  readonly #url: string

  constructor(endpoint: Endpoint, model: string) {
    this.#endpoint = endpoint
    this.#model = model
    this.#url = `${endpoint.baseUrl}/responses`
  }

  async record() {
    const endpoint = this.#endpoint
    const answer = await firstAnswer(endpoint, this.#plain({ input: CONVERSATION }))
    const text = await record(endpoint, this.stream('a text', { input: PROMPTS.repeat }))
    const tools = { tools: [TOOL], tool_choice: 'required', input: PROMPTS.oneCall }
    const tool = await record(endpoint, this.stream('a tool call', tools))
    const id = idOf(answer)
    const textId = idOfStream(text)
    const retrieved = textId === undefined ? undefined : await this.#get(`/${textId}`)
    const inputItems = id === undefined ? undefined : await this.#inputItems(id)
    const continues = { previous_response_id: id, input: PROMPTS.count }
    const next = id === undefined ? undefined : await this.#post('the next answer', continues)
    const input = PROMPTS.count
    const unstored = await this.#post('an answer that is not stored', { store: false, input })
    const background = await this.#post('an answer in the background', { background: true, input })
    const hasBackground = offersBackground(background)
    const polled = hasBackground ? await this.#poll(idOf(background) ?? '') : undefined
    const unstoredBackground = hasBackground
      ? await this.#refused({ background: true, store: false, input })
      : undefined
    return {
      answer,
      text,
      tool,
      retrieved,
      inputItems,
      next,
      unstored,
      background,
      polled,
      unstoredBackground,
      resume: await this.#resume(hasBackground),
      cancel: hasBackground ? await this.#cancel() : undefined,
      refusals: await this.#refusals(),
      broken: isTurnstream(answer) ? await this.#broken() : undefined,
      deletion: id === undefined ? undefined : await this.#delete(id),
    }
  }

  /** Deletes what was created and stored, if the server can. */
  async cleanUp({ deletion, ...record }: ResponsesRecord): Promise<void> {
    if (deletion === undefined || 'reason' in deletion.deleted) return
    if (deletion.deleted.status !== 200) return
    const { text, tool, next, unstored, background, resume, cancel, broken } = record
    const streams = [text, tool, resume?.left, cancel?.replay, broken]
    const ids = [
      ...streams.map((each) => each && idOfStream(each)),
      ...[next, unstored, background].map((each) => each && idOf(each)),
    ]
    for (const id of ids) if (id) await this.#remove(id)
  }

  #remove(id: string): Promise<Answered> {
    const url = `${this.#url}/${id}`
    return call({ ...this.#common, url, limitMs: REFUSAL_LIMIT_MS, method: 'DELETE' })
  }

  stream(about: string, body: object): StreamCall {
    const json = JSON.stringify({ model: this.#model, stream: true, ...body })
    return { ...this.#common, about, body: json, endsAt: END_SEEN }
  }

  get #common() {
    const { key, clock } = this.#endpoint
    return { url: this.#url, headers: bearer(key), limitMs: MODEL_LIMIT_MS, clock }
  }

  #post(about: string, body: object): Promise<Answered> {
    this.#endpoint.onProgress(about)
    return call(this.#plain(body))
  }

  #plain(body: object): HttpCall {
    return { ...this.#common, body: JSON.stringify({ model: this.#model, ...body }) }
  }

  #get(path: string): Promise<Answered> {
    return call({ ...this.#common, url: this.#url + path, limitMs: REFUSAL_LIMIT_MS })
  }

  #getStream(about: string, path: string, limitMs = MODEL_LIMIT_MS): Promise<Recorded> {
    const url = this.#url + path
    return record(this.#endpoint, { ...this.#common, url, about, limitMs, endsAt: END_SEEN })
  }

  /** All, oldest first; then two, newest first, as by default; then the rest. */
  async #inputItems(id: string) {
    this.#endpoint.onProgress('the input of an answer')
    const all = await this.#get(`/${id}/input_items?order=asc&limit=100`)
    const page = await this.#get(`/${id}/input_items?limit=2`)
    const last = 'status' in page ? responseIn(page)?.['last_id'] : undefined
    const after = encodeURIComponent(typeof last === 'string' ? last : '')
    const next = await this.#get(`/${id}/input_items?limit=100&after=${after}`)
    return { all, page, next }
  }

  /** The response once it has ended, or its state at the deadline. */
  async #poll(id: string): Promise<Answered> {
    const { clock } = this.#endpoint
    const until = clock.now() + MODEL_LIMIT_MS
    for (;;) {
      const answer = await this.#get(`/${id}`)
      const status = 'status' in answer ? responseIn(answer)?.['status'] : undefined
      const isRunning = status === 'queued' || status === 'in_progress'
      if (!isRunning || clock.now() > until) return answer
      await new Promise<void>((resolve) => void clock.after(POLL_MS, resolve))
    }
  }

  /** A stream that is left in the middle, what followed, all of it, and what follows each number. */
  async #resume(background: boolean) {
    const body = { ...(background && { background }), input: PROMPTS.count }
    const request = this.stream('a text to resume', body)
    const left = await record(this.#endpoint, {
      ...request,
      leavesAt: /response\.output_text\.delta/,
    })
    const id = idOfStream(left)
    if (id === undefined) return undefined
    const complete = withoutCut(left)
    const stream = decoded(complete, decodeEvents)
    const last = isStream(stream) ? numberOf(comparable(stream).at(-1)) : -1
    const rest = await this.#getStream('the rest', `/${id}?stream=true&starting_after=${last}`)
    const whole = await this.#getStream('all of it', `/${id}?stream=true`)
    const resumed: { readonly after: number; readonly recorded: Recorded }[] = []
    const all = decoded(whole, decodeEvents)
    for (const after of isStream(all) ? sampled(comparable(all).map(numberOf)) : []) {
      const path = `/${id}?stream=true&starting_after=${after}`
      const recorded = await this.#getStream(`the rest after ${after}`, path, REFUSAL_LIMIT_MS)
      resumed.push({ after, recorded })
      // The others would take as long.
      if ('reason' in recorded || recorded.ending === 'late') break
    }
    return { left: complete, rest, whole, resumed }
  }

  async #cancel() {
    const body = { background: true, input: PROMPTS.countLong }
    const request = this.stream('a text to cancel', body)
    const left = await record(this.#endpoint, { ...request, leavesAt: /response\.created/ })
    const id = idOfStream(left)
    if (id === undefined) return undefined
    const cancel = { ...this.#common, url: `${this.#url}/${id}/cancel`, method: 'POST' } as const
    const first = await call(cancel)
    const second = await call(cancel)
    const retrieved = await this.#get(`/${id}`)
    return {
      first,
      second,
      retrieved,
      replay: await this.#getStream('what is left', `/${id}?stream=true`),
    }
  }

  async #delete(id: string) {
    this.#endpoint.onProgress('a deletion')
    const deleted = await this.#remove(id)
    return { deleted, retrieved: await this.#get(`/${id}`) }
  }

  #refused(body: object | string, key = this.#endpoint.key): Promise<Answered> {
    const json = typeof body === 'string' ? body : JSON.stringify({ model: this.#model, ...body })
    const headers = bearer(key)
    return call({ ...this.#common, headers, limitMs: REFUSAL_LIMIT_MS, body: json })
  }

  async #refusals() {
    this.#endpoint.onProgress('what it refuses')
    const input = PROMPTS.count
    const hasKey = this.#endpoint.key !== undefined
    return {
      unknownModel: await this.#refused({ model: UNKNOWN_MODEL, input }),
      malformed: await this.#refused(`{"model": ${JSON.stringify(this.#model)}, "input": [`),
      unknownId: await this.#get(`/${UNKNOWN_ID}`),
      unknownPrevious: await this.#refused({ previous_response_id: UNKNOWN_ID, input }),
      wrongKey: hasKey ? await this.#refused({ input }, WRONG_KEY) : undefined,
    }
  }

  /** Only the recorded answers of a gateway of ours break off on purpose. */
  async #broken(): Promise<Recorded | undefined> {
    const request = this.stream('a text that breaks off', {
      model: BROKEN_MODEL,
      input: PROMPTS.count,
    })
    const broken = await record(this.#endpoint, request)
    return 'status' in broken && broken.status === 404 ? undefined : broken
  }
}

const UNKNOWN_ID = 'resp_turnstreamdoctornosuchresponse'

/** `[DONE]`, or the last event of servers that do not send it. */
const END_SEEN = /^(?:data: ?\[DONE\]|event: ?response\.(?:completed|incomplete|failed))\r?$/m

function idOf(answer: Answered): string | undefined {
  const id = 'status' in answer && answer.status === 200 ? responseIn(answer)?.['id'] : undefined
  return typeof id === 'string' && id !== '' ? encodeURIComponent(id) : undefined
}

function idOfStream(recorded: Recorded): string | undefined {
  const stream = decoded(recorded, decodeEvents)
  const id = isStream(stream) ? responseId(stream) : undefined
  return id === undefined ? undefined : encodeURIComponent(id)
}

/** A recording without the event that was cut when we left. */
function withoutCut(recorded: Recorded): Recorded {
  if ('reason' in recorded) return recorded
  const bytes = Buffer.concat(recorded.reads.map((read) => read.bytes))
  const end = Math.max(bytes.lastIndexOf('\n\n') + 2, bytes.lastIndexOf('\r\n\r\n') + 4)
  const atMs = recorded.reads.at(-1)?.atMs ?? 0
  return { ...recorded, reads: [{ atMs, bytes: bytes.subarray(0, end < 4 ? 0 : end) }] }
}

/** All numbers, or some of them, with the first and the last. */
function sampled(numbers: readonly number[]): number[] {
  if (numbers.length <= MAX_RESUMED) return [...numbers]
  const step = (numbers.length - 1) / (MAX_RESUMED - 1)
  return Array.from({ length: MAX_RESUMED }, (_, at) => numbers[Math.round(at * step)] ?? 0)
}
