/** A Responses API on this machine that codex calls. The last message of the user names what it answers. */
import type { ServerResponse } from 'node:http'
import { startVendor, type VendorServer } from '../providers/vendor-server.ts'

interface ResponsesRequest {
  readonly input: readonly {
    readonly type: string
    readonly role?: string
    readonly content?: readonly { readonly text?: string }[]
    readonly output?: string
    readonly name?: string
  }[]
  readonly tools?: readonly { readonly name: string }[]
}

export interface ResponsesVendor extends VendorServer {
  /** The requests so far, decoded. */
  readonly requests: readonly ResponsesRequest[]
  /** Answers that wait for the test. */
  readonly held: Set<ServerResponse>
}

export async function startResponsesVendor(): Promise<ResponsesVendor> {
  const held = new Set<ServerResponse>()
  const vendor = await startVendor((response, _request, count) => {
    const request = JSON.parse(vendor.bodies[count - 1] ?? '{}') as ResponsesRequest
    answer(request, response, held)
  })
  return {
    ...vendor,
    held,
    get requests() {
      return vendor.bodies.map((body) => JSON.parse(body) as ResponsesRequest)
    },
  }
}

const USAGE = {
  input_tokens: 11,
  input_tokens_details: { cached_tokens: 3 },
  output_tokens: 7,
  output_tokens_details: { reasoning_tokens: 2 },
  total_tokens: 18,
}

function answer(
  request: ResponsesRequest,
  response: ServerResponse,
  held: Set<ServerResponse>,
): void {
  const prompt = lastPrompt(request)
  const output = request.input.findLast(({ type }) => type === 'function_call_output')?.output
  const status = Number(/^status (\d+)/.exec(prompt)?.[1] ?? 200)
  if (status !== 200) {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error: { message: `refused with ${status}`, type: 'test' } }))
    return
  }
  const stream = new ResponseEvents(response)
  const [, code] = /^fail with (\w+)$/.exec(prompt) ?? []
  if (code !== undefined) return stream.fail(code, 'Please try again in 3.5s.')
  const [, verb, rest = ''] = /^(run|run outside|start|patch|plan):(.*)$/s.exec(prompt) ?? []
  if (verb !== undefined) return work(request, stream, verb, rest.trim())
  const [, fate] = /^call, then (.*)$/.exec(prompt) ?? []
  if (fate !== undefined) return callAndThen(request, stream, response, fate)
  switch (prompt) {
    case 'think':
      stream.reason('I should greet.')
      stream.say(['Hello.'])
      return stream.complete()
    case 'use the tools':
      if (output !== undefined) {
        stream.say([`The tools said ${output}.`])
        return stream.complete()
      }
      stream.call('call_1', request.tools?.[0]?.name ?? '', '{"city": "Paris"}')
      stream.call('call_2', request.tools?.[1]?.name ?? '', '{"city": "Rome"}')
      return stream.complete()
    case 'be cut off':
      stream.say(['As far as'])
      return stream.runOut()
    case 'refuse':
      stream.refuse('I will not.')
      return stream.complete()
    case 'close':
      response.end()
      return undefined
    case 'break off':
      stream.begin(['Half an answ'])
      response.socket?.end()
      return undefined
    case 'hold':
      stream.begin(['The beginning'])
      held.add(response)
      response.on('close', () => held.delete(response))
      return undefined
    default:
      stream.say(['Hello ', 'from ', `behind codex: ${prompt}`])
      return stream.complete()
  }
}

/** How long the model is silent between two calls. */
const SILENCE_MS = 400

/** A complete call, and what becomes of the response after it. */
function callAndThen(
  request: ResponsesRequest,
  stream: ResponseEvents,
  response: ServerResponse,
  fate: string,
): void {
  const [{ name } = { name: '' }] = request.tools ?? []
  stream.call('call_1', name, '{"city": "Paris"}')
  // codex must have read the call.
  setTimeout(() => {
    if (fate === 'cut') response.socket?.destroy()
    else if (fate === 'close') response.end()
    else if (fate === 'run out') stream.runOut()
    else if (fate === 'fail') stream.fail('server_error', 'The model broke.')
    else {
      stream.call('call_2', name, '{"city": "Rome"}')
      stream.complete()
    }
  }, SILENCE_MS)
}

/** Calls a tool of codex, and then tells what it returned. */
function work(request: ResponsesRequest, stream: ResponseEvents, verb: string, text: string): void {
  const prompted = request.input.findLastIndex(({ role }) => role === 'user')
  const result = request.input.slice(prompted).find(({ type }) => type.endsWith('_call_output'))
  if (result !== undefined) stream.say([`It returned ${JSON.stringify(result.output)}`])
  else if (verb === 'plan') {
    const plan = [
      { step: 'look', status: 'completed' },
      { step: text, status: 'in_progress' },
    ]
    stream.call('call_plan', 'update_plan', JSON.stringify({ plan }))
  } else if (verb === 'patch') {
    stream.custom('call_patch', 'apply_patch', `*** Begin Patch\n${text}\n*** End Patch\n`)
  } else {
    const isEscalated = verb === 'run outside'
    const why = { sandbox_permissions: 'require_escalated', justification: 'It must be outside.' }
    const args = {
      cmd: text,
      yield_time_ms: verb === 'start' ? 250 : 30_000,
      ...(isEscalated && why),
    }
    stream.call('call_run', 'exec_command', JSON.stringify(args))
  }
  stream.complete()
}

function lastPrompt({ input }: ResponsesRequest): string {
  const last = input.findLast(({ type, role }) => type === 'message' && role === 'user')
  return last?.content?.map(({ text = '' }) => text).join('') ?? ''
}

/** The events of one response, in the order that codex requires. */
class ResponseEvents {
  readonly #response: ServerResponse
  readonly #output: object[] = []
  #sequence = 0

  constructor(response: ServerResponse) {
    this.#response = response
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    this.send('response.created', { response: this.object('in_progress') })
  }

  object(status: string, more: object = {}): object {
    const output = status === 'completed' ? this.#output : []
    return { id: 'resp_1', object: 'response', created_at: 1, model: 'm', status, output, ...more }
  }

  /** A message that stays open. */
  begin(texts: readonly string[]): string {
    const item_id = `msg_${this.#output.length}`
    const output_index = this.#output.length
    const item = { id: item_id, type: 'message', status: 'in_progress', role: 'assistant' }
    this.send('response.output_item.added', { output_index, item: { ...item, content: [] } })
    for (const delta of texts) {
      this.send('response.output_text.delta', { item_id, output_index, content_index: 0, delta })
    }
    return item_id
  }

  say(texts: readonly string[]): void {
    const id = this.begin(texts)
    this.#done({
      id,
      type: 'message',
      status: 'completed',
      role: 'assistant',
      content: [{ type: 'output_text', text: texts.join(''), annotations: [] }],
    })
  }

  reason(text: string): void {
    const item_id = `rs_${this.#output.length}`
    const output_index = this.#output.length
    const item = { id: item_id, type: 'reasoning', summary: [] }
    const place = { item_id, output_index, summary_index: 0 }
    this.send('response.output_item.added', { output_index, item })
    this.send('response.reasoning_summary_part.added', {
      ...place,
      part: { type: 'summary_text', text: '' },
    })
    this.send('response.reasoning_summary_text.delta', { ...place, delta: text })
    this.#done({ ...item, summary: [{ type: 'summary_text', text }] })
  }

  refuse(refusal: string): void {
    const id = this.begin([])
    const content = [{ type: 'refusal', refusal }]
    this.#done({ id, type: 'message', status: 'completed', role: 'assistant', content })
  }

  call(call_id: string, name: string, args: string): void {
    const id = `fc_${this.#output.length}`
    const item = { id, type: 'function_call', call_id, name }
    this.send('response.output_item.added', {
      output_index: this.#output.length,
      item: { ...item, status: 'in_progress', arguments: '' },
    })
    this.#done({ ...item, status: 'completed', arguments: args })
  }

  custom(call_id: string, name: string, input: string): void {
    const item = { id: `ctc_${this.#output.length}`, type: 'custom_tool_call', call_id, name }
    this.send('response.output_item.added', {
      output_index: this.#output.length,
      item: { ...item, status: 'in_progress', input: '' },
    })
    this.#done({ ...item, status: 'completed', input })
  }

  runOut(): void {
    const incomplete_details = { reason: 'max_output_tokens' }
    this.send('response.incomplete', {
      response: this.object('incomplete', { incomplete_details }),
    })
    this.#response.end()
  }

  fail(code: string, message: string): void {
    const error = { code, message }
    this.send('response.failed', { response: this.object('failed', { error }) })
    this.#response.end()
  }

  complete(): void {
    this.send('response.completed', { response: this.object('completed', { usage: USAGE }) })
    this.#response.end()
  }

  send(type: string, fields: object): void {
    const data = JSON.stringify({ type, sequence_number: this.#sequence++, ...fields })
    this.#response.write(`event: ${type}\ndata: ${data}\n\n`)
  }

  #done(item: object): void {
    this.send('response.output_item.done', { output_index: this.#output.length, item })
    this.#output.push(item)
  }
}
