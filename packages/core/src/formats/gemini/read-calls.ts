import { parseJsonObject } from '../../protocol/json.ts'
import type { Fields } from '../fields.ts'
import type { ResponseWriter } from '../translation.ts'
import type { ItemMetadata, PartialArg, WireCall, WirePart } from './decode.ts'

interface OpenCall {
  key: string
  args: PartialArgs
}

/** Why a part is malformed; undefined if it is valid. */
type Fault = string | undefined

/** Tool name for code that the vendor runs. */
const CODE_EXECUTION = 'code_execution'

/** The calls of one response, including those the vendor runs. */
export class GeminiCalls {
  hasCalls = false
  readonly #writer: ResponseWriter
  readonly #metadata: ItemMetadata
  #open: OpenCall | undefined
  #codeCallId: string | undefined
  #count = 0

  constructor(writer: ResponseWriter, metadata: ItemMetadata) {
    this.#writer = writer
    this.#metadata = metadata
  }

  add(call: WireCall, signature: string | undefined): Fault {
    const { name, id } = call
    if (name === undefined) {
      return this.#open ? this.#continue(this.#open, call) : 'functionCall has no name'
    }
    this.#finishOpen()
    this.hasCalls = true
    const key = this.#nextKey()
    this.#writer.openItem(key, 'function_call', {
      name,
      call_id: id ?? this.#writer.nextCallId(),
      provider_metadata: this.#metadata(signature, id === undefined ? {} : { id }),
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
      if (!open.args.add(arg)) return 'functionCall.partialArgs has an invalid jsonPath'
    }
    const isTooLarge = open.args.length > this.#writer.maxArgumentChars
    if (!willContinue || isTooLarge) this.#finishOpen()
    return undefined
  }

  #finishOpen(): void {
    const open = this.#open
    this.#open = undefined
    if (open !== undefined) this.#writer.finishCall(open.key, { content: open.args.toString() })
  }

  addCode({ id, args, code, signature }: Extract<WirePart, { kind: 'code' }>): void {
    const key = this.#nextKey()
    this.#codeCallId = id ?? this.#writer.nextCallId()
    this.#writer.openItem(key, 'function_call', {
      name: CODE_EXECUTION,
      call_id: this.#codeCallId,
      provider_metadata: this.#metadata(signature, { executableCode: code }, true),
    })
    this.#writer.finishCall(key, { content: args })
  }

  addCodeResult(part: Extract<WirePart, { kind: 'code_result' }>): void {
    const { id, isOk, output, result, signature } = part
    const key = this.#nextKey()
    this.#writer.openItem(key, 'function_call_output', {
      call_id: id ?? this.#codeCallId ?? this.#writer.nextCallId(),
      provider_metadata: this.#metadata(signature, { codeExecutionResult: result }, true),
    })
    this.#writer.append(key, output)
    this.#writer.finishItem(key, { success: isOk })
  }

  /** The response is complete but an open call is not: it must not run. */
  finish(): void {
    const key = this.#open?.key
    this.showOpen()
    if (key === undefined) return
    this.#writer.failItem(key, {
      code: 'UPSTREAM_TRUNCATED',
      message: 'The response ended before the arguments of the call were complete',
    })
  }

  /** The input ended: emits incomplete calls unchanged. */
  showOpen(): void {
    const open = this.#open
    this.#open = undefined
    if (open !== undefined) this.#writer.append(open.key, open.args.toString())
  }

  #nextKey(): string {
    this.#count += 1
    return `part-${this.#count}`
  }
}

type Scalar = PartialArg['value']

/** A growing value: text fragments share one path. Objects have no prototype, whatever their fields are called. */
type Node = NodeFields | Node[] | Scalar
interface NodeFields {
  [name: string]: Node
}

// `.name`, `['name']`, `["name"]` or `[0]`; a leading `$` is the root.
const STEP = /\.([^.[\]]+)|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]/gy

// Deeper than any schema, and shallow enough for JSON.stringify.
const MAX_DEPTH = 64

/** Arguments that arrive value by value, each with its path. */
export class PartialArgs {
  readonly #root = newFields()
  readonly #whole: Fields
  /** Approximate length of the JSON text. */
  length = 0

  /** `whole` is what already arrived in one piece. */
  constructor(whole: Fields = {}) {
    this.#whole = whole
  }

  add({ path, value }: PartialArg): boolean {
    const steps = stepsOf(path)
    if (steps === undefined) return false
    this.length += path.length + (typeof value === 'string' ? value.length : 0)
    return put(this.#root, steps, value)
  }

  toString(): string {
    return JSON.stringify({ ...this.#whole, ...this.#root })
  }
}

type Step = string | number

function stepsOf(path: string): [Step, ...Step[]] | undefined {
  const steps: Step[] = []
  let end = path.startsWith('$') ? 1 : 0
  STEP.lastIndex = end
  for (let match = STEP.exec(path); match !== null; match = STEP.exec(path)) {
    const [, name, single, double, index] = match
    steps.push(index === undefined ? (name ?? unescape(single ?? double ?? '')) : Number(index))
    end = STEP.lastIndex
  }
  const [first, ...rest] = steps
  const isWhole = end === path.length && steps.length <= MAX_DEPTH
  return first !== undefined && isWhole ? [first, ...rest] : undefined
}

function unescape(text: string): string {
  return text.replace(/\\(.)/g, '$1')
}

function newFields(): NodeFields {
  return Object.create(null) as NodeFields
}

/** False for a path that does not fit. Lists grow only at their end: a distant index would create a hole of any size. */
function put(parent: Node, [step, ...rest]: readonly Step[], value: Scalar): boolean {
  if (step === undefined || !fits(parent, step)) return false
  if (Array.isArray(parent) && Number(step) > parent.length) return false
  const fields = parent as NodeFields
  const before = fields[step]
  const [next] = rest
  if (next === undefined) {
    const isText = typeof before === 'string' && typeof value === 'string'
    fields[step] = isText ? before + value : value
    return true
  }
  const child = fits(before, next) ? before : typeof next === 'number' ? [] : newFields()
  fields[step] = child
  return put(child, rest, value)
}

function fits(node: Node | undefined, step: Step): node is NodeFields | Node[] {
  return (
    typeof node === 'object' && node !== null && Array.isArray(node) === (typeof step === 'number')
  )
}
