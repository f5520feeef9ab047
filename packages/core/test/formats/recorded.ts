/** The recorded responses of every vendor, as StreamEvents. */

import { readdirSync, readFileSync } from 'node:fs'
import { join, parse } from 'node:path'
import { createReader } from '../../src/formats/format.ts'
import { SOURCES, type SourceName } from '../../src/formats/registry.ts'
import type { StreamEvent } from '../../src/index.ts'

const FIXTURES = 'test/fixtures'

const VENDORS: readonly SourceName[] = [
  'anthropic-messages',
  'codex',
  'gemini',
  'openai-chat',
  'openai-responses',
  'response-notifications',
]

export interface Recorded {
  readonly name: string
  readonly events: readonly StreamEvent[]
}

/** One entry per response: an input may hold several. */
export const RECORDED: readonly Recorded[] = VENDORS.flatMap((vendor) => {
  const files = readdirSync(join(FIXTURES, vendor)).filter((file) => /\.(sse|jsonl)$/.test(file))
  return files.flatMap((file) => responsesOf(vendor, file))
})

export function recorded(name: string): readonly StreamEvent[] {
  const found = RECORDED.find((each) => each.name === name)
  if (found === undefined) throw new Error(`no fixture ${name}`)
  return found.events
}

function responsesOf(vendor: SourceName, file: string): Recorded[] {
  let time = 1_700_000_000_000
  const now = () => (time += 10)
  const source = createReader(vendor, SOURCES[vendor], {
    runId: 'run',
    threadId: 'thread',
    now,
    onUnknown() {},
  })
  const bytes = readFileSync(join(FIXTURES, vendor, file))
  const events = [...source.feed(bytes), ...source.end()]
  const responses: StreamEvent[][] = []
  for (const event of events) {
    if (event.type === 'response_start') responses.push([])
    responses.at(-1)?.push(event)
  }
  const name = `${vendor}/${parse(file).name}`
  return responses.map((each, index) => ({
    name: index === 0 ? name : `${name}#${index + 1}`,
    events: each,
  }))
}
