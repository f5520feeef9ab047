import { isRecord } from '../../../protocol/json.ts'
import { type Check, ok, skipped } from '../check.ts'
import type { DecodedStream } from './recording.ts'
import { deltaOf } from './recording.ts'

/** So few may well come together. */
const MANY_CHUNKS = 8

/** What a stream tells beside right and wrong. */
export function measurements(stream: DecodedStream): Check[] {
  return [firstToken(stream), speed(stream), pace(stream)]
}

function timesOf({ chunks }: DecodedStream): number[] {
  const withText = chunks.filter(({ choices }) =>
    choices.some((choice) => {
      const { content, reasoning, reasoning_content: thought } = deltaOf(choice)
      return [content, reasoning, thought].some((text) => typeof text === 'string' && text !== '')
    }),
  )
  return withText.map(({ atMs }) => atMs)
}

function firstToken(stream: DecodedStream): Check {
  const [first] = timesOf(stream)
  if (first === undefined) return skipped('first token', 'there was none')
  return ok('first token', `after ${Math.round(first)} ms`)
}

function speed(stream: DecodedStream): Check {
  const name = 'speed'
  const times = timesOf(stream)
  const ms = (times.at(-1) ?? 0) - (times[0] ?? 0)
  const usage = stream.chunks.map(({ json }) => json['usage']).findLast(isRecord)
  const tokens = usage?.['completion_tokens']
  if (typeof tokens !== 'number') return skipped(name, 'the tokens were not counted')
  if (ms === 0) return ok(name, `${tokens} tokens at once`)
  return ok(name, `${((tokens / ms) * 1000).toFixed(1)} tokens in a second`)
}

/** Whether chunks come when they are made, or something on the way keeps them back. */
function pace({ chunks, reads }: DecodedStream): Check {
  const found = `${chunks.length} chunks in ${reads.length === 1 ? 'one read' : `${reads.length} reads`}`
  if (reads.length > 1 || chunks.length < MANY_CHUNKS) return ok('pace', found)
  return ok('pace', `${found}: the server, or a proxy before it, may keep them back`)
}
