import {
  type CompareOptions,
  compareCassettes,
  type Difference,
  LAYERS,
  type Layer,
} from '@turnstream/core/internal/cassettes/compare'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { clip } from '@turnstream/core/internal/protocol/printable'
import { defineCommand, EXIT, UsageError } from '../command.ts'
import { readCassetteFile } from './input.ts'

export const diff = defineCommand({
  name: 'cassette diff',
  summary: 'compare two cassettes',
  usage: ['turnstream cassette diff <a> <b> [--layers <list>] [--ids] [--times] [--json]'],
  about: `Prints the first difference. Compares the events of the vendor, where both files have them, then the
StreamEvents, then the last snapshot of each item. Also accepts files of StreamEvents.`,
  options: {
    layers: {
      value: 'list',
      about: 'what to compare, separated by commas',
      default: LAYERS.join(','),
    },
    ids: { about: 'also compare ids and opaque values of vendors' },
    times: { about: 'compare times, and how text was split: every chunk, delta and snapshot' },
    json: { about: 'print {"equal"}, and the difference: "layer","place","record","path","a","b"' },
  },
  words: { takes: 'two files', min: 2, max: 2 },
  examples: ['turnstream cassette diff turn.jsonl turn.jsonl'],
  exitCodes: '0 equal · 1 different · 2 usage error or unreadable file',
  async run({ values, words: [a = '', b = ''] }, terminal) {
    const { ids, times, json } = values
    const options: CompareOptions = { ids, times, layers: parseLayers(values.layers) }
    const left = await readCassetteFile(a, terminal)
    const right = await readCassetteFile(b, terminal)
    const difference = compareCassettes(left, right, options)
    if (json) await terminal.write(jsonLine({ equal: difference === undefined, ...difference }))
    else if (difference !== undefined) await terminal.write(describe(difference, a, b))
    return difference === undefined ? EXIT.done : EXIT.failed
  },
})

function parseLayers(text: string): Layer[] {
  return text.split(',').map((name) => {
    const layer = LAYERS.find((each) => each === name.trim())
    if (layer !== undefined) return layer
    throw new UsageError(`--layers takes some of ${LAYERS.join(', ')}; got '${name}'`)
  })
}

const TITLES: Record<Layer, string> = {
  vendor: 'vendor events',
  events: 'StreamEvents',
  outputs: 'snapshots',
}

const MAX_SHOWN = 160
/** Of a long text, how much is shown before the difference. */
const BEFORE = 40

function describe(difference: Difference, left: string, right: string): string {
  const { layer, place, record, path, a, b } = difference
  const from = typeof a === 'string' && typeof b === 'string' ? commonChars(a, b) : undefined
  const what = path === '' ? '' : `, field ${path}`
  const where = from === undefined ? '' : `, from character ${from + 1}`
  return [
    `The ${TITLES[layer]} differ at number ${place} (${record})${what}${where}:`,
    `  ${left}: ${show(a, from)}`,
    `  ${right}: ${show(b, from)}`,
    '',
  ].join('\n')
}

function commonChars(a: string, b: string): number {
  let at = 0
  while (at < a.length && a[at] === b[at]) at += 1
  return at
}

function show(value: unknown, from = 0): string {
  if (value === undefined) return 'nothing'
  const start = Math.max(0, from - BEFORE)
  const part = typeof value === 'string' ? value.slice(start, start + MAX_SHOWN) : value
  return `${start > 0 ? '…' : ''}${clip(JSON.stringify(part), MAX_SHOWN)}`
}
