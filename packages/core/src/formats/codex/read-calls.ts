import { parseJsonObject } from '../../protocol/json.ts'
import type { Fields } from '../fields.ts'
import { toMetadata } from '../metadata.ts'
import type { ResponseWriter } from '../translation.ts'
import type { RawItem, ToolItem, ToolOutput } from './events.ts'

interface Call {
  id: string
  args: string
  metadata: Fields
  /** Missing in the raw call, set by the item that follows. */
  runBy: ToolItem['runBy'] | 'unknown'
  /** `open`: incomplete, or owner unknown. `waiting`: for its output. `failed`: too large to store. */
  phase: 'open' | 'waiting' | 'over' | 'failed'
  /** Whether the model has finished the response with the call. */
  isResponseOver: boolean
  /** What codex told the model in place of the client. It counts if the model continues with it. */
  substitute: { text: string | undefined } | undefined
  decoder: TextDecoder | undefined
}

type Opening = Pick<Call, 'id' | 'metadata' | 'runBy'> & { name: string; args: string | undefined }

/** The tool calls of a turn, run by codex or left to the client, and their results. */
export class CodexCalls {
  readonly #writer: ResponseWriter
  readonly #calls = new Map<string, Call>()

  constructor(writer: ResponseWriter) {
    this.#writer = writer
  }

  /** Drops incomplete calls of a failed attempt. Running calls continue. */
  dropOpen(): void {
    for (const call of this.#calls.values()) {
      if (call.phase === 'open') this.#calls.delete(call.id)
    }
  }

  /** Raw calls of the model: exact arguments, in order. */
  addRawCall(raw: RawItem & { kind: 'call' }): void {
    this.#ongoing({ ...raw, runBy: 'unknown' })
  }

  start(item: ToolItem): void {
    const call = this.#ongoing(item)
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

  /** The output the model gets for a call without an item or a result. */
  addRawOutput({ id, text }: RawItem & { kind: 'output' }): void {
    const call = this.#calls.get(id)
    if (call === undefined || isOver(call) || call.runBy === 'codex') return
    if (call.runBy === 'client' && call.substitute === undefined) return
    call.substitute = { text }
  }

  noteResponseCompleted(): void {
    for (const call of this.#calls.values()) call.isResponseOver = true
  }

  /** The model continues, so what codex told it in place of the client was the result. */
  noteModelSpeaks(): void {
    for (const call of this.#calls.values()) {
      const isHeard = call.isResponseOver || call.runBy === 'client'
      if (call.substitute !== undefined && isHeard) this.#acceptSubstitute(call)
    }
  }

  /** Ends the turn. Returns whether calls are left to the client. */
  settle(): boolean {
    for (const call of this.#calls.values()) {
      if (call.substitute !== undefined) this.#acceptSubstitute(call)
    }
    return this.leaveToClient()
  }

  /** Hands over unanswered calls. Returns whether there are any. */
  leaveToClient(): boolean {
    const left = [...this.#calls.values()].filter(({ phase, runBy }) => {
      return (phase === 'open' || phase === 'waiting') && runBy !== 'codex'
    })
    for (const call of left) this.#handOver(call)
    return left.length > 0
  }

  /** An id may be reused after the end of its call. */
  #ongoing(opening: Opening): Call {
    const known = this.#calls.get(opening.id)
    return known === undefined || known.phase === 'over' ? this.#open(opening) : known
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

  /** The call is complete and its owner is known. */
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

  /** Codex does not report success. A call with invalid JSON cannot have run. */
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

/** The item names the owner of the call, and what the raw call omits. */
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
