/**
 * Every fixture of a vendor becomes its golden, byte for byte, and the same events however the input is cut.
 * `UPDATE_GOLDEN=1 npx vitest run goldens` records the goldens again.
 */

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, parse } from 'node:path'
import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { createReader, createWriter } from '../../src/formats/format.ts'
import { SOURCES, type SourceName, TARGETS, type TargetName } from '../../src/formats/registry.ts'
import { isStreamEvent } from '../../src/index.ts'
import { seededRandom } from './random.ts'

const FIXTURES = 'test/fixtures'
const GOLDENS = 'test/goldens'

/** What is made of the events, by code that all vendors share: recorded for some fixtures of each. */
const DERIVED: readonly [target: TargetName, json: boolean][] = [
  ['xapi', true],
  ['response', true],
  ['chat-completions', false],
  ['openai-responses', true],
  ['anthropic-messages', true],
]

interface Fixture {
  vendor: SourceName
  name: string
  bytes: Uint8Array
}

function fixturesOf(vendor: SourceName): Fixture[] {
  const folder = join(FIXTURES, vendor)
  return readdirSync(folder)
    .filter((file) => /\.(sse|jsonl)$/.test(file))
    .map((file) => ({ vendor, name: parse(file).name, bytes: readFileSync(join(folder, file)) }))
}

function eventsOf({ vendor }: Fixture, chunks: Iterable<Uint8Array>) {
  const source = createReader(vendor, SOURCES[vendor], {
    runId: 'run',
    threadId: 'thread',
    now: () => 0,
    onUnknown() {},
  })
  const events = []
  for (const chunk of chunks) events.push(...source.feed(chunk))
  events.push(...source.end())
  return { events, fault: source.fault }
}

async function convert(fixture: Fixture, target: TargetName, json: boolean): Promise<string> {
  let text = ''
  const write = async (part: string): Promise<void> => {
    text += part
  }
  const clock = fakeClock()
  const sink = createWriter(TARGETS[target], { json, includeUsage: true, write, clock })
  for (const event of eventsOf(fixture, [fixture.bytes]).events) await sink.event(event)
  await sink.end()
  // The ids of snapshots are random, and none of them is in a payload.
  return text
}

/** A fixture as a chat-completions stream. */
export async function toChatStream(vendor: SourceName, name: string): Promise<string> {
  const fixture = fixturesOf(vendor).find((each) => each.name === name)
  if (fixture === undefined) throw new Error(`no fixture ${vendor}/${name}`)
  return convert(fixture, 'chat-completions', false)
}

interface Choice {
  /** Fixtures recorded in every form. Together they hold every kind of event of the vendor. */
  everyForm: readonly string[]
  /** The fixture that is cut in two at every byte, also within a character. */
  everyCut: string
}

export function describeFixtures(vendor: SourceName, { everyForm, everyCut }: Choice): void {
  const fixtures = fixturesOf(vendor)
  describe.each(fixtures)('$vendor $name', (fixture) => {
    describeFixture(fixture)
    if (everyForm.includes(fixture.name)) describeDerived(fixture)
  })

  test(`${vendor} has every fixture that is named here`, () => {
    expect(fixtures.map(({ name }) => name)).toEqual(
      expect.arrayContaining([...everyForm, everyCut]),
    )
  })

  test(`${vendor} ${everyCut} is the same wherever it is cut in two`, () => {
    const fixture = fixtures.find(({ name }) => name === everyCut)
    if (fixture === undefined) throw new Error(`no fixture ${vendor}/${everyCut}`)
    const expected = JSON.stringify(eventsOf(fixture, [fixture.bytes]))
    const differing = [...fixture.bytes.keys()].filter((cut) => {
      const parts = [fixture.bytes.subarray(0, cut), fixture.bytes.subarray(cut)]
      return JSON.stringify(eventsOf(fixture, parts)) !== expected
    })
    expect(differing).toEqual([])
  })
}

/** The recorded text, after recording `actual` if asked to. */
function goldenOf({ vendor, name }: Fixture, ending: string, actual: string): string {
  const path = join(GOLDENS, vendor, `${name}.${ending}`)
  if (process.env['UPDATE_GOLDEN']) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, actual)
  }
  return readFileSync(path, 'utf8')
}

function describeDerived(fixture: Fixture): void {
  test('in every other form is its golden', async () => {
    let texts = ''
    for (const [target, json] of DERIVED) {
      texts += `# ${target}\n${await convert(fixture, target, json)}`
    }
    expect(texts).toBe(goldenOf(fixture, 'forms.txt', texts))
  })
}

function describeFixture(fixture: Fixture): void {
  test('as events is its golden', async () => {
    const events = await convert(fixture, 'v2', true)
    expect(events).toBe(goldenOf(fixture, 'v2.jsonl', events))
  })

  test('ends every response once, with valid events', () => {
    const { events } = eventsOf(fixture, [fixture.bytes])
    expect(events.every(isStreamEvent)).toBe(true)
    const starts = events.filter(({ type }) => type === 'response_start')
    const ends = events.filter(({ type }) =>
      ['response_done', 'response_error', 'turn_aborted_by_user'].includes(type),
    )
    expect(starts.length).toBeGreaterThan(0)
    expect(ends).toHaveLength(starts.length)
  })

  test('is the same byte by byte, and in pieces of any size', () => {
    const { bytes } = fixture
    const expected = JSON.stringify(eventsOf(fixture, [bytes]))
    const single = Array.from(bytes, (_, index) => bytes.subarray(index, index + 1))
    expect(JSON.stringify(eventsOf(fixture, single))).toBe(expected)
    for (let seed = 1; seed <= RANDOM_CUTS; seed++) {
      const pieces = [...piecesOf(bytes, seed)]
      const lengths = pieces.map(({ length }) => length).join(' ')
      expect(JSON.stringify(eventsOf(fixture, pieces)), lengths).toBe(expected)
    }
  })
}

const RANDOM_CUTS = 20

function* piecesOf(bytes: Uint8Array, seed: number): Generator<Uint8Array> {
  const random = seededRandom(seed)
  for (let start = 0; start < bytes.length; ) {
    const end = start + 1 + Math.floor(random() * 100)
    yield bytes.subarray(start, end)
    start = end
  }
}
