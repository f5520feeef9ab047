import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { CassetteDecoder } from '@turnstream/core/internal/cassettes/decode'
import type { Recording } from '@turnstream/core/internal/formats/v2/recording'

/** The cassettes of this folder, by model. The default comes first. */
const FILES = {
  answer: 'answer.cassette.jsonl',
  thinking: 'thinking.cassette.jsonl',
  tools: 'tools.cassette.jsonl',
  error: 'error.cassette.jsonl',
  long: 'long.cassette.jsonl.gz',
} as const

export type DemoModel = keyof typeof FILES

export const DEMO_MODELS = Object.keys(FILES) as DemoModel[]

const read = new Map<DemoModel, Recording>()

/** Returns the recording of a model. Reads it the first time: `long` takes a moment. */
export function demoRecording(model: DemoModel): Recording {
  const known = read.get(model)
  if (known !== undefined) return known
  const file = FILES[model]
  const bytes = readFileSync(new URL(file, import.meta.url))
  const decoder = new CassetteDecoder()
  decoder.feed(file.endsWith('.gz') ? gunzipSync(bytes) : bytes)
  const recording = decoder.end().events.map(({ event }) => event)
  read.set(model, recording)
  return recording
}

export const demoRecordings = Object.fromEntries(
  DEMO_MODELS.map((model) => [model, () => demoRecording(model)]),
)
