import type { OutputItem } from '../protocol/output-item.ts'
import type { StreamEvent, StreamEventPayload } from '../protocol/stream-event.ts'

export const DEMO_TURN_ID = 'demo-turn'
export const DEMO_THREAD_ID = 'demo-thread'

/** An event and how long after the one before it arrives. */
export interface ScriptedEvent {
  afterMs: number
  event: StreamEvent
}

const PROMPT = 'What is the weather in Lisbon, and should I take a coat?'
const THOUGHTS =
  'The user asks about the weather in Lisbon. I do not know today’s weather by myself, so I will ' +
  'look it up with the tool that I was given. A coat depends on temperature, rain and wind.'
const ARGUMENTS = '{"city":"Lisbon","unit":"celsius","fields":["temperature","rain","wind"]}'
const OUTPUT = '{"temperature":17,"rain":0.1,"wind":"light"}'
const ANSWER =
  'It is 17 °C in Lisbon with a light wind and almost no chance of rain, so you can leave the coat ' +
  'at home. A light jacket is enough for the evening: near the river it cools down quickly once ' +
  'the sun is gone.\n\n' +
  'While you read this, the text arrived as some ninety small deltas. The processor counted them, ' +
  'showed the first ones quickly and later ones in larger steps, and each snapshot that you saw ' +
  'was the whole text so far: a reader who missed one has missed nothing.'

const DELTA_MS = 25

/** A whole turn as an adapter would hand it over: a question, thoughts, a tool call, an answer. */
export function demoTurn(startedAt: number): ScriptedEvent[] {
  const script = new Script(startedAt)
  script.add(0, {
    type: 'response_start',
    response_id: DEMO_TURN_ID,
    turn_id: DEMO_TURN_ID,
    thread_id: DEMO_THREAD_ID,
    model_id: 'recorded',
    provider_id: 'scripted',
    created_at: startedAt,
  })
  const prompt = 'demo-user-prompt'
  script.start(0, { item_id: prompt, item_type: 'message' })
  script.done({ type: 'message', id: prompt, content: PROMPT, origin: 'user' })
  script.start(300, { item_id: 'thoughts', item_type: 'reasoning' })
  script.deltas('thoughts', THOUGHTS)
  script.done({ type: 'reasoning', id: 'thoughts', content: THOUGHTS })
  addCall(script)
  script.start(400, { item_id: 'answer', item_type: 'message' })
  script.deltas('answer', ANSWER)
  script.done({ type: 'message', id: 'answer', content: ANSWER, origin: 'agent' })
  script.add(0, {
    type: 'response_done',
    response_id: DEMO_TURN_ID,
    status: 'complete',
    finish_reason: 'stop',
    usage: { prompt_tokens: 61, completion_tokens: 187, total_tokens: 248 },
  })
  return script.events
}

function addCall(script: Script): void {
  const name = 'get_weather'
  const call_id = 'call-1'
  script.start(200, { item_id: 'call', item_type: 'function_call', name })
  script.deltas('call', ARGUMENTS)
  script.done({ type: 'function_call', id: 'call', name, arguments: ARGUMENTS, call_id })
  script.start(500, { item_id: 'result', item_type: 'function_call_output' })
  script.done({
    type: 'function_call_output',
    id: 'result',
    call_id,
    output: OUTPUT,
    success: true,
  })
}

/** Writes events down one after another, each with its id and its time. */
class Script {
  readonly events: ScriptedEvent[] = []
  #time: number

  constructor(startedAt: number) {
    this.#time = startedAt
  }

  add(afterMs: number, payload: StreamEventPayload): void {
    this.#time += afterMs
    const sequence = String(this.events.length + 1).padStart(12, '0')
    const event = {
      event_id: `00000000-0000-8000-8000-${sequence}`,
      timestamp: this.#time,
      trace_context: { traceparent: '00-00000000000000000000000000000001-0000000000000001-01' },
      run_id: DEMO_TURN_ID,
      type: payload.type,
      payload,
    } as StreamEvent
    this.events.push({ afterMs, event })
  }

  start(afterMs: number, item: Omit<StreamEventPayload<'item_start'>, 'type'>): void {
    this.add(afterMs, { type: 'item_start', ...item })
  }

  deltas(item_id: string, text: string): void {
    for (const delta_content of pieces(text)) {
      this.add(DELTA_MS, { type: 'item_delta', item_id, delta_content })
    }
  }

  done(final_item: OutputItem): void {
    this.add(0, { type: 'item_done', item_id: final_item.id, final_item })
  }
}

/** Cuts a text as models do: mostly a word with the space before it. */
function pieces(text: string): string[] {
  return text.match(/\s*\S{1,8}/gu) ?? []
}
