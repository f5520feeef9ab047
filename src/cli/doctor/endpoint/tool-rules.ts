import { isRecord, parseJsonObject } from '../../../protocol/json.ts'
import { type Fault, shown } from './fault.ts'
import { type DecodedStream, deltaOf, finishesOf } from './recording.ts'
import { isWhole } from './stream-rules.ts'

type Fragment = Readonly<Record<string, unknown>>

/** A call with the fragments that are meant for it. */
interface Call {
  readonly id: unknown
  readonly index: unknown
  readonly fragments: Fragment[]
}

function fragmentsOf({ chunks }: DecodedStream): Fragment[] {
  return chunks.flatMap(({ choices }) =>
    choices.flatMap((choice) => {
      const { tool_calls: calls } = deltaOf(choice)
      return Array.isArray(calls) ? calls.filter(isRecord) : []
    }),
  )
}

/**
 * Gives each fragment to the call that its server had in mind, also where the rules are broken, so that one
 * fault is not taken for several: a new id opens a call, and what has neither id nor index is for the last.
 */
export function callsOf(stream: DecodedStream): Call[] {
  const calls: Call[] = []
  for (const fragment of fragmentsOf(stream)) {
    const call = callFor(fragment, calls)
    if (call === undefined) {
      calls.push({ id: fragment['id'], index: fragment['index'], fragments: [fragment] })
    } else {
      call.fragments.push(fragment)
    }
  }
  return calls
}

function callFor({ id, index }: Fragment, calls: readonly Call[]): Call | undefined {
  const hasId = typeof id === 'string' && id !== ''
  if (hasId) return calls.find((call) => call.id === id)
  return (
    calls.findLast((call) => call.index === index) ??
    (index === undefined ? calls.at(-1) : undefined)
  )
}

/** Each call opens with its id, its type and the name of the function. */
export function openingFault(stream: DecodedStream): Fault | undefined {
  for (const { fragments } of callsOf(stream)) {
    const [first] = fragments
    const { id, type } = first ?? {}
    const isOpening = typeof id === 'string' && id !== '' && type === 'function' && nameIn(first)
    if (!isOpening) {
      const expected = 'id, type "function" and the name in the first fragment of a call'
      return { expected, came: shown(first) }
    }
  }
  return undefined
}

function nameIn(fragment: Fragment | undefined): boolean {
  const of = fragment?.['function']
  return isRecord(of) && typeof of['name'] === 'string' && of['name'] !== ''
}

export function toolIndexFault(stream: DecodedStream): Fault | undefined {
  const other = fragmentsOf(stream).find(({ index }) => !Number.isSafeInteger(index))
  if (other !== undefined)
    return { expected: 'index in every fragment of a call', came: shown(other) }
  const moved = callsOf(stream).find(({ index, fragments }) =>
    fragments.some((fragment) => fragment['index'] !== index),
  )
  return (
    moved && { expected: 'one index for all fragments of a call', came: shown(moved.fragments) }
  )
}

export function argumentsFault(stream: DecodedStream): Fault | undefined {
  if (!isWhole(stream)) return undefined
  for (const { fragments } of callsOf(stream)) {
    const text = fragments.map(argumentsIn).join('')
    if (parseJsonObject(text) === undefined) {
      return { expected: 'fragments that are a JSON object together', came: shown(text) }
    }
  }
  return undefined
}

function argumentsIn(fragment: Fragment): string {
  const of = fragment['function']
  return isRecord(of) && typeof of['arguments'] === 'string' ? of['arguments'] : ''
}

export function toolFinishFault(stream: DecodedStream): Fault | undefined {
  const finish = finishesOf(stream).at(-1)
  if (finish === undefined || finish.reason === 'tool_calls') return undefined
  return { expected: 'finish_reason: "tool_calls"', came: shown(finish.reason) }
}

/** Several calls at once need an index each; clients put together what has the same. */
export function parallelFault(stream: DecodedStream): Fault | undefined {
  const indices = callsOf(stream).map(({ index }) => index)
  // That one is missing is a fault of its own.
  const known = indices.filter((index) => index !== undefined)
  if (new Set(known).size === known.length) return undefined
  return {
    expected: 'an index of its own for each call',
    came: `the indices ${indices.join(', ')}`,
  }
}
