/**
 * Every fixture of a vendor, in every form we can give it, byte for byte; and the same events wherever
 * the input is cut. `UPDATE_GOLDEN=1 npx vitest run goldens` records anew.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, parse } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createSource, type SourceName } from '../../src/cli/sources.ts'
import { createTarget, type TargetName } from '../../src/cli/targets.ts'
import { isStreamEvent } from '../../src/protocol/stream-event-guard.ts'
import { fakeClock } from '../../src/testing/fake-clock.ts'
import { seededRandom } from './random.ts'

const FIXTURES = 'test/fixtures'
const GOLDENS = 'test/goldens'

/** Forms that are compared, and the endings of their files. */
const FORMS: [target: TargetName, json: boolean, ending: string][] = [
  ['v2', true, 'v2.jsonl'],
  ['xapi', true, 'xapi.jsonl'],
  ['response', true, 'response.jsonl'],
  ['chat-completions', false, 'chat.sse'],
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
  const source = createSource(vendor, {
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
  const sink = createTarget(target, { json, includeUsage: true, write, clock })
  for (const event of eventsOf(fixture, [fixture.bytes]).events) await sink.event(event)
  await sink.end()
  // The ids of snapshots are random, and none of them is in a payload.
  return text
}

export function describeFixtures(vendor: SourceName): void {
  describe.each(fixturesOf(vendor))('$vendor $name', (fixture) => {
    describeFixture(fixture)
  })
}

function describeFixture(fixture: Fixture): void {
  test.each(FORMS)('as %s (json: %s) is its golden', async (target, json, ending) => {
    const path = join(GOLDENS, fixture.vendor, `${fixture.name}.${ending}`)
    const actual = await convert(fixture, target, json)
    if (process.env['UPDATE_GOLDEN']) {
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, actual)
    }
    expect(actual).toBe(readFileSync(path, 'utf8'))
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

  // Thousands of readings each, on machines that may be busy.
  test('is the same wherever it is cut', { timeout: 120_000 }, () => {
    const whole = JSON.stringify(eventsOf(fixture, [fixture.bytes]))
    const differing = [...cutsOf(fixture.bytes)].filter(
      (chunks) => JSON.stringify(eventsOf(fixture, chunks)) !== whole,
    )
    expect(differing.map((chunks) => chunks.map(({ length }) => length))).toEqual([])
  })
}

const SMALL = 8 * 1024
const RANDOM_CUTS = 500

/** A small input in two at every byte, a large one at many places at once; each byte by byte. */
function* cutsOf(bytes: Uint8Array): Generator<Uint8Array[]> {
  yield Array.from(bytes, (_, index) => bytes.subarray(index, index + 1))
  if (bytes.length <= SMALL) {
    for (let cut = 0; cut <= bytes.length; cut++)
      yield [bytes.subarray(0, cut), bytes.subarray(cut)]
    return
  }
  const random = seededRandom(bytes.length)
  const cuts = Array.from({ length: RANDOM_CUTS }, () => Math.floor(random() * bytes.length))
  for (const cut of cuts) yield [bytes.subarray(0, cut), bytes.subarray(cut)]
  const places = [0, ...cuts.toSorted((a, b) => a - b), bytes.length]
  yield places.slice(1).map((end, index) => bytes.subarray(places[index] ?? 0, end))
}
