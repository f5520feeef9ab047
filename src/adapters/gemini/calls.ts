/** The calls of one response, those that the vendor runs by itself among them. */
import { parseJsonObject } from '../../protocol/json.ts'
import type { Fields } from '../fields.ts'
import { toMetadata } from '../metadata.ts'
import type { ResponseWriter } from '../response-writer.ts'
import { PartialArgs } from './partial-args.ts'
import { NAMESPACE, type WireCall, type WirePart } from './wire.ts'

/** A call whose arguments are still coming. */
interface OpenCall {
  key: string
  args: PartialArgs
}

/** Why nothing can be made of a part; undefined when something was. */
type Fault = string | undefined

/** The name of the tool with which the vendor runs what the model wrote. */
const CODE_EXECUTION = 'code_execution'

export class GeminiCalls {
  readonly #writer: ResponseWriter
  /** What every item carries. */
  readonly #common: () => Fields
  #open: OpenCall | undefined
  #codeCallId: string | undefined
  #count = 0
  #hasCalls = false

  constructor(writer: ResponseWriter, common: () => Fields) {
    this.#writer = writer
    this.#common = common
  }

  /** Whether there are calls that wait for an answer. */
  get hasCalls(): boolean {
    return this.#hasCalls
  }

  add(call: WireCall, signature: string | undefined): Fault {
    const { name, id } = call
    if (name === undefined) {
      return this.#open === undefined
        ? 'functionCall has no name'
        : this.#continue(this.#open, call)
    }
    this.#finishOpen()
    this.#hasCalls = true
    const key = this.#nextKey()
    const kept = { ...this.#kept(signature), ...(id !== undefined && { id }) }
    this.#writer.openItem(key, 'function_call', {
      name,
      call_id: id ?? this.#writer.nextCallId(),
      provider_metadata: toMetadata(NAMESPACE, kept),
    })
    if (call.willContinue || call.partialArgs.length > 0) {
      this.#open = { key, args: new PartialArgs(parseJsonObject(call.args ?? '')) }
      return this.#continue(this.#open, call)
    }
    this.#writer.finishCall(key, { content: call.args })
    return undefined
  }

  #continue(open: OpenCall, { partialArgs, willContinue }: WireCall): Fault {
    for (const arg of partialArgs) {
      if (!open.args.add(arg)) return 'functionCall.partialArgs has a jsonPath that leads nowhere'
    }
    const isTooLarge = open.args.length > this.#writer.maxArgumentChars
    if (!willContinue || isTooLarge) this.#finishOpen()
    return undefined
  }

  #finishOpen(): void {
    if (this.#open === undefined) return
    const { key, args } = this.#open
    this.#open = undefined
    this.#writer.finishCall(key, { content: args.toString() })
  }

  addCode({ id, args, code, signature }: Extract<WirePart, { kind: 'code' }>): void {
    const key = this.#nextKey()
    this.#codeCallId = id ?? this.#writer.nextCallId()
    const kept = { ...this.#kept(signature), executableCode: code }
    this.#writer.openItem(key, 'function_call', {
      name: CODE_EXECUTION,
      call_id: this.#codeCallId,
      provider_metadata: toMetadata(NAMESPACE, kept, true),
    })
    this.#writer.finishCall(key, { content: args })
  }

  addCodeResult(part: Extract<WirePart, { kind: 'code_result' }>): void {
    const { id, isOk, output, result, signature } = part
    const key = this.#nextKey()
    const call_id = id ?? this.#codeCallId ?? this.#writer.nextCallId()
    const kept = { ...this.#kept(signature), codeExecutionResult: result }
    this.#writer.openItem(key, 'function_call_output', {
      call_id,
      provider_metadata: toMetadata(NAMESPACE, kept, true),
    })
    this.#writer.append(key, output)
    this.#writer.finishItem(key, { success: isOk })
  }

  /** The response is whole, a call that is still open is not: nobody may run it. */
  finish(): void {
    const { key } = this.#open ?? {}
    this.showOpen()
    if (key === undefined) return
    this.#writer.failItem(key, {
      code: 'UPSTREAM_TRUNCATED',
      message: 'The response ended before the arguments of the call',
    })
  }

  /** Nothing more will come: what there is of a call is shown as it is. */
  showOpen(): void {
    if (this.#open === undefined) return
    const { key, args } = this.#open
    this.#open = undefined
    this.#writer.append(key, args.toString())
  }

  #kept(signature: string | undefined): Fields {
    return { ...this.#common(), ...(signature !== undefined && { thoughtSignature: signature }) }
  }

  #nextKey(): string {
    this.#count += 1
    return `part-${this.#count}`
  }
}
