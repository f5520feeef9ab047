import { type Faults, type Stream } from './fake-endpoint.ts'

export type Json = Record<string, unknown>

/** Changes each chunk of a stream. */
export function eachChunk(
  change: (chunk: Json, at: number, all: number) => Json | Json[] | undefined,
): Faults {
  return {
    stream: (stream) => {
      const chunks = stream.events.filter((data) => data !== '[DONE]')
      const changed = chunks.flatMap((data, at) => {
        const result = change(JSON.parse(data) as Json, at, chunks.length)
        return result === undefined ? [] : result
      })
      stream.events = [...changed.map((each) => JSON.stringify(each)), '[DONE]']
    },
  }
}

export function choiceOf(each: Json): Json {
  return (each['choices'] as Json[])[0] ?? {}
}

export function deltaOf(each: Json): Json {
  return (choiceOf(each)['delta'] ?? {}) as Json
}

export function callsOf(each: Json): Json[] {
  return (deltaOf(each)['tool_calls'] ?? []) as Json[]
}

/** Changes each fragment of a tool call. */
export function eachFragment(change: (fragment: Json) => void): Faults {
  return eachChunk((each) => {
    for (const fragment of callsOf(each)) change(fragment)
    return each
  })
}

export function isFinish(each: Json): boolean {
  return typeof choiceOf(each)['finish_reason'] === 'string'
}

export function plainText(change: (stream: Stream) => void): Faults {
  return { stream: change }
}

export interface Planted {
  fault: string
  faults: Faults
  check: string
  expected: RegExp
  came: RegExp
}
