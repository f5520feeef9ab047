/** A wire format is one folder, and its rows in `registry.ts`. This is such a folder, and its rows. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { AnswerReader, type AnswerSink } from '../../src/formats/answer.ts'
import { Malformed, requireFields } from '../../src/formats/fields.ts'
import {
  createReader,
  createWriter,
  type EventWriter,
  encoderWriter,
  type ResponseStart,
  type WriterOptions,
} from '../../src/formats/format.ts'
import { SOURCES as KNOWN_SOURCES, TARGETS as KNOWN_TARGETS } from '../../src/formats/registry.ts'
import { type TranslationContext, WriterTranslation } from '../../src/formats/translation.ts'
import { encodeSse, type StreamEvent } from '../../src/index.ts'

/** wire.ts */
type ToyEvent = { say: string } | { bye: string }

/** decode.ts */
function decodeEvent(json: unknown): ToyEvent {
  const { say, bye } = requireFields(json, 'it')
  if (typeof say === 'string') return { say }
  if (typeof bye === 'string') return { bye }
  throw new Malformed('it has neither say nor bye')
}

/** read.ts */
class ToyTranslation extends WriterTranslation {
  protected apply(json: unknown): void {
    const event = decodeEvent(json)
    if ('bye' in event) return this.writer.finish('stop', event.bye)
    this.writer.openItem('text', 'message', { origin: 'agent' })
    this.writer.append('text', event.say)
  }
}

/** write.ts */
class ToyEncoder implements AnswerSink {
  readonly #reader = new AnswerReader(this)
  #events: ToyEvent[] = []

  encode(event: StreamEvent): ToyEvent[] {
    this.#reader.apply(event)
    return this.#events.splice(0)
  }

  encodeSse(event: StreamEvent): string {
    return this.encode(event)
      .map((each) => encodeSse({ data: JSON.stringify(each) }))
      .join('')
  }

  grow({ kind }: { kind: string }, say: string): void {
    if (kind === 'text') this.#events.push({ say })
  }

  end(): void {
    this.#events.push({ bye: 'now' })
  }

  start(): void {}
  open(): void {}
  close(): void {}
}

function writeToy(_start: ResponseStart, options: WriterOptions): EventWriter {
  return encoderWriter(new ToyEncoder(), options)
}

/** registry.ts */
const SOURCES = {
  ...KNOWN_SOURCES,
  toy: { title: 'Toy', translate: (context: TranslationContext) => new ToyTranslation(context) },
}
const TARGETS = { ...KNOWN_TARGETS, toy: writeToy }

/** What `turnstream convert` does. */
async function convert(
  from: keyof typeof SOURCES,
  to: keyof typeof TARGETS,
  input: string,
  json = true,
): Promise<string> {
  let text = ''
  const reader = createReader(from, SOURCES[from], {
    runId: 'run',
    threadId: 'thread',
    now: () => 0,
  })
  const writer = createWriter(TARGETS[to], {
    write: (part) => void (text += part),
    json,
    includeUsage: false,
    clock: fakeClock(),
  })
  const bytes = new TextEncoder().encode(input)
  for (const event of [...reader.feed(bytes), ...reader.end()]) await writer.event(event)
  await writer.end()
  return text
}

const LINES = '{"say":"Hello, "}\n{"say":"world"}\n{"bye":"now"}\n'

test('a turn is the same after it was read and written', async () => {
  expect(await convert('toy', 'toy', LINES)).toBe(LINES)
})

test('frames of SSE have the same events', async () => {
  const frames = LINES.trimEnd()
    .split('\n')
    .map((line) => `data: ${line}\n\n`)
  expect(await convert('toy', 'toy', LINES, false)).toBe(frames.join(''))
  expect(await convert('toy', 'toy', frames.join(''))).toBe(LINES)
})

test('what it says can be written in another format', async () => {
  const response = JSON.parse(await convert('toy', 'response', LINES))
  expect(response).toMatchObject({ status: 'complete', provider_id: 'toy', finish_reason: 'stop' })
  expect(response.output_items).toMatchObject([{ type: 'message', content: 'Hello, world' }])
})

test('what another format says can be written in it', async () => {
  const sse = readFileSync('test/fixtures/openai-chat/text.sse', 'utf8')
  const response = JSON.parse(await convert('openai-chat', 'response', sse))
  const lines = (await convert('openai-chat', 'toy', sse)).trimEnd().split('\n')
  const said = lines.map((line) => JSON.parse(line).say ?? '').join('')
  expect(said).toBe(response.output_items.at(-1).content)
})

test('malformed input fails the turn, as in every format', async () => {
  const response = JSON.parse(await convert('toy', 'response', '{"say":"H"}\n{"sing":1}\n'))
  expect(response).toMatchObject({
    status: 'error',
    error: { code: 'UPSTREAM_MALFORMED', message: 'it has neither say nor bye' },
  })
})
