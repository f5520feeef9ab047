import { bearer } from '@turnstream/core/internal/formats/vendor-request'
import {
  type Answered,
  decoded,
  type Endpoint,
  isStream,
  MODEL_LIMIT_MS,
  PROMPTS,
  REFUSAL_LIMIT_MS,
  type Recorded,
  Tester,
  WEATHER,
} from './exchange.ts'
import { jsonIn } from './fault.ts'
import { call, type HttpCall } from './http.ts'
import { judgeResponses, type ResponsesRecord } from './responses-judge.ts'
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
export async function responsesChecks(endpoint: Endpoint, model: string, models: HttpCall) {
  const tester = new ResponsesTester(endpoint, model)
  const recorded = await tester.recordAll()
  await tester.cleanUp(recorded)
  const abort = await tester.abortCheck({ input: PROMPTS.count }, models)
  return [...judgeResponses(recorded), abort]
}

/** How many numbers a stream is resumed after. Longer streams are sampled. */
const MAX_RESUMED = 32

const POLL_MS = 250

export class ResponsesTester extends Tester {
  constructor(endpoint: Endpoint, model: string) {
    super(endpoint, model, { path: '/responses', headers: bearer, endsAt: END_SEEN })
  }

  async recordAll() {
    const answer = await this.firstAnswer({ input: CONVERSATION })
    const text = await this.record(this.stream('a text', { input: PROMPTS.repeat }))
    const tools = { tools: [TOOL], tool_choice: 'required', input: PROMPTS.oneCall }
    const tool = await this.record(this.stream('a tool call', tools))
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
    return {
      answer,
      text,
      tool,
      retrieved,
      inputItems,
      next,
      unstored,
      background,
      polled: hasBackground ? await this.#poll(idOf(background) ?? '') : undefined,
      unstoredBackground: hasBackground
        ? await this.quick(this.plain({ background: true, store: false, input }))
        : undefined,
      resume: await this.#resume(hasBackground),
      cancel: hasBackground ? await this.#cancel() : undefined,
      refusals: await this.#refusals(),
      broken: await this.recordBroken(answer, { input }),
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

  #to(path: string): HttpCall {
    return { ...this.common, url: this.common.url + path }
  }

  #remove(id: string): Promise<Answered> {
    return this.quick({ ...this.#to(`/${id}`), method: 'DELETE' })
  }

  #post(about: string, body: object): Promise<Answered> {
    this.endpoint.onProgress(about)
    return call(this.plain(body))
  }

  #get(path: string): Promise<Answered> {
    return this.quick(this.#to(path))
  }

  #getStream(about: string, path: string, limitMs = MODEL_LIMIT_MS): Promise<Recorded> {
    return this.record({ ...this.#to(path), about, limitMs })
  }

  /** All, oldest first; then two, newest first, as by default; then the rest. */
  async #inputItems(id: string) {
    this.endpoint.onProgress('the input of an answer')
    const all = await this.#get(`/${id}/input_items?order=asc&limit=100`)
    const page = await this.#get(`/${id}/input_items?limit=2`)
    const last = jsonIn(page)?.['last_id']
    const after = encodeURIComponent(typeof last === 'string' ? last : '')
    const next = await this.#get(`/${id}/input_items?limit=100&after=${after}`)
    return { all, page, next }
  }

  /** The response once it has ended, or its state at the deadline. */
  async #poll(id: string): Promise<Answered> {
    const { clock } = this.endpoint
    const until = clock.now() + MODEL_LIMIT_MS
    for (;;) {
      const answer = await this.#get(`/${id}`)
      const status = jsonIn(answer)?.['status']
      const isRunning = status === 'queued' || status === 'in_progress'
      if (!isRunning || clock.now() > until) return answer
      await new Promise<void>((resolve) => void clock.after(POLL_MS, resolve))
    }
  }

  /** A stream that is left in the middle, what followed, all of it, and what follows each number. */
  async #resume(background: boolean) {
    const body = { ...(background && { background }), input: PROMPTS.count }
    const request = this.stream('a text to resume', body)
    const leavesAt = /response\.output_text\.delta/
    const left = await this.record({ ...request, leavesAt })
    const id = idOfStream(left)
    if (id === undefined) return undefined
    const complete = withoutCut(left)
    const stream = decoded(complete)
    const last = isStream(stream) ? numberOf(comparable(stream).at(-1)) : -1
    const rest = await this.#getStream('the rest', `/${id}?stream=true&starting_after=${last}`)
    const whole = await this.#getStream('all of it', `/${id}?stream=true`)
    const resumed: { readonly after: number; readonly recorded: Recorded }[] = []
    const all = decoded(whole)
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
    const left = await this.record({ ...request, leavesAt: /response\.created/ })
    const id = idOfStream(left)
    if (id === undefined) return undefined
    const cancel = { ...this.#to(`/${id}/cancel`), method: 'POST' } as const
    return {
      first: await call(cancel),
      second: await call(cancel),
      retrieved: await this.#get(`/${id}`),
      replay: await this.#getStream('what is left', `/${id}?stream=true`),
    }
  }

  async #delete(id: string) {
    this.endpoint.onProgress('a deletion')
    const deleted = await this.#remove(id)
    return { deleted, retrieved: await this.#get(`/${id}`) }
  }

  async #refusals() {
    const continues = { previous_response_id: UNKNOWN_ID, input: PROMPTS.count }
    return {
      ...(await this.recordRefusals({ input: PROMPTS.count }, 'input')),
      unknownId: await this.#get(`/${UNKNOWN_ID}`),
      unknownPrevious: await this.quick(this.plain(continues)),
    }
  }
}

const UNKNOWN_ID = 'resp_turnstreamdoctornosuchresponse'

/** `[DONE]`, or the last event of servers that do not send it. */
const END_SEEN = /^(?:data: ?\[DONE\]|event: ?response\.(?:completed|incomplete|failed))\r?$/m

function idOf(answer: Answered): string | undefined {
  const id = 'status' in answer && answer.status === 200 ? jsonIn(answer)?.['id'] : undefined
  return typeof id === 'string' && id !== '' ? encodeURIComponent(id) : undefined
}

function idOfStream(recorded: Recorded): string | undefined {
  const stream = decoded(recorded)
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
