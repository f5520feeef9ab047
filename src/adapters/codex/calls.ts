import { parseJsonObject } from '../../protocol/json.ts'
import type { Fields } from '../fields.ts'
import { toMetadata } from '../metadata.ts'
import type { ResponseWriter } from '../translation.ts'
import type { RawItem, ToolItem, ToolOutput } from './events.ts'

interface Call {
  id: string
  args: string
  metadata: Fields
  /** The raw call does not say; the item that follows it does. */
  runBy: ToolItem['runBy'] | 'unknown'
  /** `open`: not whole, or not known whose. `waiting`: for its output. `failed`: too large to keep. */
  phase: 'open' | 'waiting' | 'over' | 'failed'
  /** Whether the model has finished the response that holds the call. */
  isResponseOver: boolean
  /** What codex told the model in place of the client; it counts if the model goes on with it. */
  substitute: { text: string | undefined } | undefined
  decoder: TextDecoder | undefined
}

type Opening = Pick<Call, 'id' | 'metadata' | 'runBy'> & { name: string; args: string | undefined }

/** The tool calls of a turn, run by codex or left to the client, and what came of them. */
export class CodexCalls {
  readonly #writer: ResponseWriter
  #calls = new Map<string, Call>()

  constructor(writer: ResponseWriter) {
    this.#writer = writer
  }

  reset(): void {
    this.#calls = new Map()
  }

  /** Calls that were not whole went with the attempt that made them; those being run go on. */
  dropOpen(): void {
    for (const call of this.#calls.values()) {
      if (call.phase === 'open') this.#calls.delete(call.id)
    }
  }

  /** The model's own words: exact arguments, and calls in their order. */
  addRawCall(raw: RawItem & { kind: 'call' }): void {
    const known = this.#calls.get(raw.id)
    if (known === undefined || known.phase === 'over') {
      this.#open({ ...raw, runBy: 'unknown' })
    }
  }

  start(item: ToolItem): void {
    const known = this.#calls.get(item.id)
    const call = known === undefined || known.phase === 'over' ? this.#open(item) : known
    claim(call, item)
    if (item.args !== undefined) this.#handOver(call)
  }

  complete(item: ToolItem): void {
    const call = this.#calls.get(item.id) ?? this.#open({ ...item, args: undefined })
    if (isOver(call)) return
    if (call.phase === 'open' && call.args === '') this.#grow(call, item.args ?? '')
    claim(call, item)
    this.#handOver(call)
    if (call.runBy === 'client' && item.output.text === undefined) {
      call.substitute = { text: undefined }
    } else {
      this.#answer(call, item.output)
    }
  }

  appendOutput(id: string, text: string | Uint8Array): void {
    const call = this.#calls.get(id)
    if (call?.phase !== 'waiting' || call.runBy !== 'codex') return
    this.#openOutput(call)
    this.#writer.append(outputKey(id), typeof text === 'string' ? text : decodeChunk(call, text))
  }

  /** What the model is told of a call that has no item, or that nobody answered. */
  addRawOutput({ id, text }: RawItem & { kind: 'output' }): void {
    const call = this.#calls.get(id)
    if (call === undefined || isOver(call) || call.runBy === 'codex') return
    if (call.runBy === 'client' && call.substitute === undefined) return
    call.substitute = { text }
  }

  noteResponseCompleted(): void {
    for (const call of this.#calls.values()) call.isResponseOver = true
  }

  /** The model goes on: what codex told it in place of the client was an answer after all. */
  noteModelSpeaks(): void {
    for (const call of this.#calls.values()) {
      const isHeard = call.isResponseOver || call.runBy === 'client'
      if (call.substitute !== undefined && isHeard) this.#acceptSubstitute(call)
    }
  }

  /** The turn ran to its end. Answers whether calls are left to the client. */
  settle(): boolean {
    for (const call of this.#calls.values()) {
      if (call.substitute !== undefined) this.#acceptSubstitute(call)
    }
    return this.leaveToClient()
  }

  /** Hands over what nobody has answered. Answers whether there is any. */
  leaveToClient(): boolean {
    const left = [...this.#calls.values()].filter(({ phase, runBy }) => {
      return (phase === 'open' || phase === 'waiting') && runBy !== 'codex'
    })
    for (const call of left) this.#handOver(call)
    return left.length > 0
  }

  #open({ id, name, metadata, runBy, args }: Opening): Call {
    const call: Call = {
      id,
      args: '',
      metadata,
      runBy,
      phase: 'open',
      isResponseOver: false,
      substitute: undefined,
      decoder: undefined,
    }
    this.#calls.set(id, call)
    this.#writer.openItem(callKey(id), 'function_call', {
      name,
      call_id: id,
      provider_metadata: runBy === 'codex' ? metadataOf(call) : {},
    })
    if (args !== undefined) this.#grow(call, args)
    return call
  }

  #grow(call: Call, args: string): void {
    call.args = args
    this.#writer.append(callKey(call.id), args)
    if (!this.#writer.isOpenItem(callKey(call.id))) call.phase = 'failed'
  }

  /** The call is whole and it is known who runs it. */
  #handOver(call: Call): void {
    if (call.phase !== 'open') return
    call.phase = 'waiting'
    this.#writer.finishItem(callKey(call.id), { provider_metadata: metadataOf(call) })
  }

  #openOutput(call: Call): void {
    this.#writer.openItem(outputKey(call.id), 'function_call_output', {
      call_id: call.id,
      provider_metadata: metadataOf(call),
    })
  }

  #answer(call: Call, { text, success, metadata }: ToolOutput): void {
    this.#handOver(call)
    if (call.phase !== 'waiting') return
    call.phase = 'over'
    this.#openOutput(call)
    this.#writer.finishItem(outputKey(call.id), {
      content: text,
      success,
      provider_metadata: { ...metadataOf(call), codex: metadata },
    })
  }

  /** Codex does not say whether it went well; a call that is no JSON cannot have been run. */
  #acceptSubstitute(call: Call): void {
    if (isOver(call)) return
    const isClients = call.runBy === 'client'
    if (!isClients) call.runBy = 'codex'
    const success = !isClients && parseJsonObject(call.args) !== undefined
    this.#answer(call, { text: call.substitute?.text, success, metadata: call.metadata })
  }
}

function isOver({ phase }: Call): boolean {
  return phase === 'over' || phase === 'failed'
}

/** The item says who runs the call, and what the raw call left out. */
function claim(call: Call, { runBy, metadata }: ToolItem): void {
  if (call.runBy === 'unknown') call.runBy = runBy
  call.metadata = { ...call.metadata, ...metadata }
}

function metadataOf({ runBy, metadata }: Call): Fields {
  return toMetadata('codex', metadata, runBy === 'codex')
}

function callKey(id: string): string {
  return `call ${id}`
}

function outputKey(id: string): string {
  return `output ${id}`
}

function decodeChunk(call: Call, bytes: Uint8Array): string {
  call.decoder ??= new TextDecoder()
  return call.decoder.decode(bytes, { stream: true })
}
