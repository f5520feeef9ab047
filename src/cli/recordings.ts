import type { Recording } from '../adapters/scripted/wire.ts'
import { EXECUTED_BY_PROVIDER } from '../protocol/item-marks.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type {
  ErrorObject,
  ItemType,
  StreamEvent,
  StreamEventPayload,
} from '../protocol/stream-event.ts'

const ANSWER = `**This is a recorded answer.** No model read your question: the \`scripted\` provider always \
plays this text, so you can try everything without a key.

What happens while you read:

1. The provider sends about forty small pieces of text per second. Each becomes a *StreamEvent* and is written \
to a log before any client gets it.
2. A processor turns them into *snapshots*: the complete text so far, often at first and less often later. \
They are stored in a second log.
3. Clients only read from these logs. A client that joins late, reconnects or reads the turn a second time gets \
the same text as one that was connected all the time.

Try to break it:

- Disconnect in the middle and reconnect. The answer continued without you, and you get the rest.
- Read it from a second client at the same time.
- Kill the server with \`kill -9\` and restart it. The text you have seen is still there, unless the store is in \
memory. The turn ends as an error, because its process died before the end.
- Cancel it from any client. The text so far stays, and a real provider would be stopped.

Use the models \`scripted/thinking\`, \`scripted/tools\`, \`scripted/error\` or \`scripted/long\` for the other \
recordings. For a real model, set \`OPENAI_API_KEY\`, \`ANTHROPIC_API_KEY\` or \`GEMINI_API_KEY\` and restart \
the server.`

const RIDDLE_THOUGHTS = `A farmer has a wolf, a goat and a cabbage, and a boat for himself and one of them. Left \
alone, the wolf eats the goat and the goat eats the cabbage.

Every forbidden pair has the goat in it, so the goat has to cross first. Then he returns alone and takes \
either of the others, say the wolf. Now wolf and goat would be together on the far side while he goes back, \
so he must not leave them: he takes the goat back with him. Then the cabbage goes over, which may stay with \
the wolf, and last the goat again.

Crossings: goat, back, wolf, goat back, cabbage, back, goat. That is seven. Can it be shorter? Each of \
the three needs a crossing forward, and between two crossings forward there is one back: at least five. \
With five, every return is empty; but after the second load he would leave the goat with what it must not \
be left with. So seven is the least.`

const RIDDLE_ANSWER = `He needs **seven crossings**:

| # | to the far side | back | left behind | on the far side |
|---|---|---|---|---|
| 1 | goat | | wolf, cabbage | goat |
| 2 | | alone | wolf, cabbage | goat |
| 3 | wolf | | cabbage | wolf, goat |
| 4 | | goat | goat, cabbage | wolf |
| 5 | cabbage | | goat | wolf, cabbage |
| 6 | | alone | goat | wolf, cabbage |
| 7 | goat | | | all three |

The trick is the fourth: he takes the goat *back*.

(This is a recording. The part before this answer was reasoning: a separate item, which a user interface can \
show, collapse or hide.)`

const TRIP_THOUGHTS =
  'I need the weather in two cities and the trains between them. These are independent, so I call all ' +
  'three tools in parallel.'

const TRIP_CALLS: readonly RecordedCall[] = [
  {
    name: 'get_weather',
    args: { city: 'Lisbon', day: 'tomorrow', unit: 'celsius' },
    output: { temperature: 17, rain: 0.1, wind: 'light' },
    ms: 900,
  },
  {
    name: 'get_weather',
    args: { city: 'Porto', day: 'tomorrow', unit: 'celsius' },
    output: { temperature: 13, rain: 0.8, wind: 'fresh' },
    ms: 600,
  },
  {
    name: 'find_trains',
    args: { from: 'Lisbon', to: 'Porto', date: 'tomorrow', after: '08:00' },
    output: { departures: ['08:09', '09:30'], minutes: 190 },
    ms: 1400,
  },
]

const TRIP_ANSWER = `Take a coat: **Lisbon** will have 17 °C and hardly any rain tomorrow, but **Porto** 13 °C, a \
fresh wind and rain for most of the day.

Trains leave at **08:09** and **09:30** and take three hours and ten minutes, so the first one \
arrives before half past eleven.

(The weather and the trains are made up: this is a recording of three parallel tool calls. Each is one card, and \
its output appears when its tool is done, whatever the order of the calls.)`

/** Three parallel calls, run by the provider, and an answer with their outputs. */
function withTools(script: Script): Recording {
  return script.think(400, TRIP_THOUGHTS).call(250, TRIP_CALLS).say(350, TRIP_ANSWER).end()
}

/** The same as a complete turn, with its question. */
export function recordToolsTurn(): Recording {
  const question =
    'I am going from Lisbon to Porto tomorrow. Do I need a coat, and which train should I take?'
  return withTools(new Script('tools').ask(question))
}

const BROKEN_ANSWER = `This answer will break off. Providers get overloaded, networks fail and quotas run out, often in the middle of \
a sentence.

The text up to that point stays. Its item is marked as failed, with an error code, and the turn ends as an \
error, once, for every client that reads it now or later. No client waits forever, and no client takes half \
an answer for a complete`

const LAST = 640
const CHAPTER = 40

/** About 400 deltas per second in bursts, like a fast model behind a busy network. */
const FAST_PACE: Pace = [20, 0, 0, 0, 0, 0, 0, 0]

const INTRODUCTION = `This answer is long on purpose: more than twenty thousand tokens. It counts, so you \
can see whether anything is missing or repeated. Cut the connection anywhere, reconnect, read it from a second \
client, or cancel it.`

function longText(): string {
  const parts = ['# A walk through the numbers', INTRODUCTION]
  for (let n = 1; n <= LAST; n++) {
    if (n % CHAPTER === 1) parts.push(`## From ${n} to ${n + CHAPTER - 1}`)
    parts.push(tellNumber(n))
  }
  parts.push(
    `That was ${LAST}. If you saw every number exactly once, nothing was lost or repeated.`,
  )
  return parts.join('\n\n')
}

const RECORDERS = {
  answer: () => new Script('answer').say(400, ANSWER).end(),
  thinking: () => new Script('thinking').think(500, RIDDLE_THOUGHTS).say(300, RIDDLE_ANSWER).end(),
  tools: () => withTools(new Script('tools')),
  error: () =>
    new Script('error').breakOff(400, BROKEN_ANSWER, {
      code: 'overloaded_error',
      message: 'The model is overloaded (this failure is part of the recording)',
    }),
  long: () => new Script('long', FAST_PACE).say(400, longText()).end(),
} as const satisfies Record<string, () => Recording>

export type RecordingName = keyof typeof RECORDERS

/** The default comes first. */
export const RECORDING_NAMES = Object.keys(RECORDERS) as RecordingName[]

/** The built-in recordings by name. Each is created when it is first played. */
export function builtInRecordings(): Readonly<Record<RecordingName, Recording>> {
  const recordings = {} as Record<RecordingName, Recording>
  for (const name of RECORDING_NAMES) {
    let recording: Recording | undefined
    Object.defineProperty(recordings, name, {
      enumerable: true,
      get: () => (recording ??= RECORDERS[name]()),
    })
  }
  return recordings
}

/** A paragraph of computed facts about an integer. */
export function tellNumber(n: number): string {
  return [opening(n), ofDivisors(n), ofShape(n), ofBinary(n)].filter(Boolean).join(' ')
}

function opening(n: number): string {
  if (n === 1) return '**1** is where counting begins; it is neither prime nor composite.'
  const factors = primeFactors(n)
  if (factors.length === 1) return `**${n}** is a prime number${twinOf(n)}.`
  return `**${n}** is ${product(factors)}.`
}

function twinOf(n: number): string {
  if (primeFactors(n - 2).length === 1) return `, and with ${n - 2} it forms a pair of twin primes`
  if (primeFactors(n + 2).length === 1) return `, like its twin ${n + 2}`
  return ''
}

const POWERS = ['', '', ' squared', ' cubed']

function product(factors: readonly number[]): string {
  const exponents = new Map<number, number>()
  for (const factor of factors) exponents.set(factor, (exponents.get(factor) ?? 0) + 1)
  return [...exponents]
    .map(([base, exponent]) => `${base}${POWERS[exponent] ?? ` to the power of ${exponent}`}`)
    .join(' times ')
}

function ofDivisors(n: number): string {
  const divisors = divisorsOf(n)
  if (divisors.length <= 2) return ''
  const sum = divisors.reduce((total, each) => total + each, 0) - n
  return `It has ${divisors.length} divisors; all but itself add up to ${sum}, ${judgement(sum, n)}.`
}

function judgement(sum: number, n: number): string {
  if (sum === n) return 'the number itself, which makes it perfect'
  return sum > n ? `${sum - n} more than the number` : `${n - sum} less than the number`
}

function ofShape(n: number): string {
  const facts: string[] = []
  const side = Math.round(Math.sqrt(n))
  if (side * side === n && n > 1) facts.push(`a square with a side of ${side}`)
  const row = Math.round((Math.sqrt(8 * n + 1) - 1) / 2)
  if ((row * (row + 1)) / 2 === n && n > 1) facts.push(`the sum of all numbers up to ${row}`)
  if (isFibonacci(n) && n > 3) facts.push('a Fibonacci number')
  if (n > 10 && `${n}` === `${n}`.split('').toReversed().join('')) facts.push('a palindrome')
  return facts.length === 0 ? '' : `It is ${facts.join(', and ')}.`
}

function ofBinary(n: number): string {
  const bits = n.toString(2)
  const ones = bits.replaceAll('0', '').length
  return `In binary it is ${bits}, with ${ones === 1 ? 'a single one' : `${ones} ones`}.`
}

function primeFactors(n: number): number[] {
  const factors: number[] = []
  let rest = n
  for (let prime = 2; prime * prime <= rest; prime++) {
    while (rest % prime === 0) {
      factors.push(prime)
      rest /= prime
    }
  }
  return rest > 1 ? [...factors, rest] : factors
}

function divisorsOf(n: number): number[] {
  return Array.from({ length: n }, (_, index) => index + 1).filter((each) => n % each === 0)
}

function isFibonacci(n: number): boolean {
  let [a, b] = [1, 1]
  while (b < n) [a, b] = [b, a + b]
  return b === n
}

/** The ids in every built-in recording. A player replaces them with the ids of its turn. */
export const RECORDED = { turnId: 'recorded-turn', threadId: 'recorded-thread' } as const

/** Delays before the deltas, in ms, repeated. */
type Pace = readonly number[]

/** 30 to 60 deltas per second, unevenly, like a model. */
const MODEL_PACE: Pace = [19, 23, 31, 17, 26, 20, 33, 18, 22, 28, 17]

interface RecordedCall {
  readonly name: string
  readonly args: Record<string, unknown>
  readonly output: Record<string, unknown>
  /** How long the tool takes. */
  readonly ms: number
}

/** Builds a turn as a provider would have sent it, with timestamps. */
export class Script {
  readonly #events: StreamEvent[] = []
  readonly #pace: Pace
  #time = 0
  #deltas = 0
  #items = 0
  #calls = 0
  #chars = 0

  constructor(model: string, pace: Pace = MODEL_PACE) {
    this.#pace = pace
    this.#add(0, {
      type: 'response_start',
      response_id: RECORDED.turnId,
      turn_id: RECORDED.turnId,
      thread_id: RECORDED.threadId,
      model_id: model,
      provider_id: 'scripted',
      created_at: 0,
    })
  }

  /** Adds the user's prompt, for players without a server. */
  ask(content: string): this {
    const id = `${RECORDED.turnId}-user-prompt`
    this.#add(0, { type: 'item_start', item_id: id, item_type: 'message' })
    return this.#done({ type: 'message', id, content, origin: 'user' })
  }

  think(afterMs: number, content: string): this {
    const id = this.#text(afterMs, 'reasoning', content)
    return this.#done({ type: 'reasoning', id, content, origin: 'agent' })
  }

  say(afterMs: number, content: string): this {
    const id = this.#text(afterMs, 'message', content)
    return this.#done({ type: 'message', id, content, origin: 'agent' })
  }

  /** Adds parallel calls: arguments are interleaved, outputs arrive as the tools finish. */
  call(afterMs: number, calls: readonly RecordedCall[]): this {
    const open = calls.map(({ name, args, output, ms }) => {
      const id = this.#start(afterMs, 'function_call', name)
      this.#calls += 1
      const call_id = `recorded-call-${this.#calls}`
      const argumentsText = JSON.stringify(args)
      return { id, call_id, name, arguments: argumentsText, output: JSON.stringify(output), ms }
    })
    const pieces = open.map((call) => piecesOf(call.arguments))
    for (let at = 0; pieces.some(({ length }) => at < length); at++) {
      for (const [index, { id }] of open.entries()) {
        const piece = pieces[index]?.[at]
        if (piece !== undefined) this.#delta(id, piece)
      }
    }
    for (const { output: _output, ms: _ms, ...call } of open) {
      const provider_metadata = { executed_by: EXECUTED_BY_PROVIDER }
      this.#done({ type: 'function_call', ...call, provider_metadata })
    }
    let elapsed = 0
    for (const { call_id, output, ms } of open.toSorted((a, b) => a.ms - b.ms)) {
      const id = this.#start(ms - elapsed, 'function_call_output')
      this.#done({ type: 'function_call_output', id, call_id, output, success: true })
      elapsed = ms
    }
    return this
  }

  /** A call that the server or the client runs. */
  request(afterMs: number, name: string, args: object, call_id: string): this {
    const id = this.#start(afterMs, 'function_call', name)
    const text = JSON.stringify(args)
    for (const piece of piecesOf(text)) this.#delta(id, piece)
    return this.#done({ type: 'function_call', id, call_id, name, arguments: text })
  }

  /** The text breaks off, and the response with it. */
  breakOff(afterMs: number, content: string, error: ErrorObject): Recording {
    const id = this.#text(afterMs, 'message', content)
    this.#add(400, { type: 'item_error', item_id: id, error })
    this.#add(0, { type: 'response_error', response_id: RECORDED.turnId, error })
    return this.#events
  }

  end(finish_reason: 'stop' | 'tool_calls' = 'stop'): Recording {
    const completion_tokens = Math.ceil(this.#chars / 4)
    const usage = { prompt_tokens: 0, completion_tokens, total_tokens: completion_tokens }
    this.#add(0, {
      type: 'response_done',
      response_id: RECORDED.turnId,
      status: 'complete',
      finish_reason,
      usage: { ...usage, estimated: true },
    })
    return this.#events
  }

  #text(afterMs: number, type: 'message' | 'reasoning', content: string): string {
    const id = this.#start(afterMs, type)
    for (const piece of piecesOf(content)) this.#delta(id, piece)
    return id
  }

  #start(afterMs: number, item_type: ItemType, name?: string): string {
    this.#items += 1
    const item_id = `recorded-${this.#items}`
    this.#add(afterMs, { type: 'item_start', item_id, item_type, ...(name && { name }) })
    return item_id
  }

  #delta(item_id: string, delta_content: string): void {
    const afterMs = this.#pace[this.#deltas % this.#pace.length] ?? 0
    this.#deltas += 1
    this.#chars += delta_content.length
    this.#add(afterMs, { type: 'item_delta', item_id, delta_content })
  }

  #done(final_item: OutputItem): this {
    this.#add(0, { type: 'item_done', item_id: final_item.id, final_item })
    return this
  }

  #add(afterMs: number, payload: StreamEventPayload): void {
    this.#time += afterMs
    const sequence = String(this.#events.length + 1).padStart(12, '0')
    this.#events.push({
      event_id: `00000000-0000-8000-8000-${sequence}`,
      timestamp: this.#time,
      trace_context: { traceparent: '00-00000000000000000000000000000001-0000000000000001-01' },
      run_id: RECORDED.turnId,
      type: payload.type,
      payload,
    } as StreamEvent)
  }
}

/** Cuts a text as models do, mostly into words with the space before them, and loses none of it. */
function piecesOf(text: string): string[] {
  return text.match(/\s*\S{1,7}|\s+$/gu) ?? []
}
