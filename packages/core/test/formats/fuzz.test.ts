/** Whatever comes in: nothing throws, nothing hangs, every response ends once, and never by a guess. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import { createReader, createWriter } from '../../src/formats/format.ts'
import {
  SOURCE_NAMES,
  SOURCES,
  type SourceName,
  TARGET_NAMES,
  TARGETS,
} from '../../src/formats/registry.ts'
import { isStreamEvent, type StreamEvent } from '../../src/index.ts'

const TERMINALS = new Set(['response_done', 'response_error', 'turn_aborted_by_user'])
const utf8 = new TextEncoder()

function fixturesOf(vendor: SourceName): Uint8Array[] {
  const folder = join('test/fixtures', vendor)
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .filter((file) => /\.(sse|jsonl)$/.test(file))
    .map((file) => readFileSync(join(folder, file)))
    .filter(({ length }) => length < 16_384)
}

function read(vendor: SourceName, chunks: readonly Uint8Array[]): StreamEvent[] {
  const source = createReader(vendor, SOURCES[vendor], {
    runId: 'run',
    threadId: 'thread',
    now: () => 0,
    onUnknown() {},
  })
  return [...chunks.flatMap((chunk) => source.feed(chunk)), ...source.end()]
}

async function checkEvents(events: readonly StreamEvent[]): Promise<void> {
  let isOpen = false
  for (const event of events) {
    expect(isStreamEvent(event), JSON.stringify(event)).toBe(true)
    if (event.type === 'response_start') {
      expect(isOpen).toBe(false)
      isOpen = true
    } else {
      expect(isOpen, `${event.type} outside a response`).toBe(true)
    }
    if (TERMINALS.has(event.type)) isOpen = false
  }
  expect(isOpen).toBe(false)
  for (const name of TARGET_NAMES) {
    const options = { json: false, includeUsage: true, write: async () => {}, clock: fakeClock() }
    const target = createWriter(TARGETS[name], options)
    for (const event of events) await target.event(event)
    await target.end()
  }
}

const vendors = SOURCE_NAMES.filter((name) => name !== 'v2')

describe.each(vendors)('%s', (vendor) => {
  const fixtures = fixturesOf(vendor)
  const fixture = fc.constantFrom(...fixtures)

  test('accepts any bytes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 200 })), async (chunks) => {
        await checkEvents(read(vendor, chunks))
      }),
    )
  })

  test('accepts any JSON, as lines and as SSE', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.json(), { maxLength: 5 }), fc.boolean(), async (values, sse) => {
        const text = values.map((json) => (sse ? `data: ${json}\n\n` : `${json}\n`)).join('')
        await checkEvents(read(vendor, [utf8.encode(text)]))
      }),
    )
  })

  test('accepts its own streams with bytes changed, lost or truncated', async () => {
    const damage = fc.record({
      at: fc.nat(),
      lost: fc.nat({ max: 40 }),
      put: fc.uint8Array({ maxLength: 4 }),
      end: fc.option(fc.nat()),
    })
    await fc.assert(
      fc.asyncProperty(fixture, fc.array(damage, { maxLength: 3 }), async (bytes, damages) => {
        let broken = Buffer.from(bytes)
        for (const { at, lost, put, end } of damages) {
          const place = at % (broken.length + 1)
          broken = Buffer.concat([broken.subarray(0, place), put, broken.subarray(place + lost)])
          if (end !== null) broken = broken.subarray(0, end % (broken.length + 1))
        }
        await checkEvents(read(vendor, [broken]))
      }),
      { numRuns: caseCount(300) },
    )
  })

  test('accepts its own events in any order, repeated and omitted', async () => {
    await fc.assert(
      fc.asyncProperty(fixture, fc.array(fc.nat(), { maxLength: 60 }), async (bytes, picks) => {
        const text = Buffer.from(bytes).toString('utf8')
        const separator = text.trimStart().startsWith('{') ? '\n' : '\n\n'
        const records = text.split(separator).filter((record) => record.trim() !== '')
        const picked = picks.map((pick) => records[pick % records.length] ?? '')
        await checkEvents(read(vendor, [utf8.encode(picked.join(separator) + separator)]))
      }),
      { numRuns: caseCount(300) },
    )
  })

  test('accepts its own events with arbitrary field values', async () => {
    await fc.assert(
      fc.asyncProperty(
        fixture,
        fc.array(fc.tuple(fc.nat(), fc.nat(), oddity), { minLength: 1, maxLength: 4 }),
        async (bytes, changes) => {
          const events = jsonOf(bytes)
          for (const [which, where, value] of changes) {
            const event = events[which % events.length]
            if (event !== undefined) replaceField(event, where, value)
          }
          const lines = events.map((event) => `${JSON.stringify(event)}\n`).join('')
          await checkEvents(read(vendor, [utf8.encode(lines)]))
        },
      ),
      { numRuns: caseCount(500) },
    )
  })
})

const oddity = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    '',
    'text',
    '\u0000',
    '\ud800',
    -1,
    1e308,
    1.5,
    2 ** 53,
    true,
    [],
    {},
  ),
  fc.jsonValue({ maxDepth: 2 }),
)

function jsonOf(bytes: Uint8Array): Record<string, unknown>[] {
  const lines = Buffer.from(bytes).toString('utf8').split('\n')
  return lines.flatMap((line) => {
    const json = line.replace(/^data: ?/, '')
    if (!json.startsWith('{')) return []
    try {
      return [JSON.parse(json) as Record<string, unknown>]
    } catch {
      return [] // a fixture that is broken on purpose
    }
  })
}

/** Replaces the field that comes at this place when all of them are counted, at every depth. */
function replaceField(value: Record<string, unknown>, where: number, by: unknown): void {
  const places: [Record<string, unknown>, string][] = []
  const visit = (inner: unknown): void => {
    if (typeof inner !== 'object' || inner === null) return
    for (const [key, next] of Object.entries(inner)) {
      places.push([inner as Record<string, unknown>, key])
      visit(next)
    }
  }
  visit(value)
  const place = places[where % places.length]
  if (place !== undefined) place[0][place[1]] = by
}
