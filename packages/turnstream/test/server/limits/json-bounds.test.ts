/** Bodies that are small in bytes and large in values. */
import { describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { MAX_JSON_VALUES } from '../../../../core/src/protocol/json.ts'
import { JsonBounds, MAX_JSON_MEMBERS } from '../../../src/server/json-bounds.ts'
import { call, startServer } from '../support.ts'
import { UNLIMITED } from '../unlimited.ts'

function fault(text: string, chunkBytes = Infinity): string {
  const bounds = new JsonBounds()
  const bytes = Buffer.from(text)
  const step = Math.min(chunkBytes, bytes.length)
  try {
    for (let at = 0; at < bytes.length; at += step) bounds.add(bytes.subarray(at, at + step))
    return 'none'
  } catch (error) {
    return (error as Error).message
  }
}

function fields(count: number): Record<string, number> {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, at]))
}

const MEMBERS = /more than 5000 fields/
const VALUES = /more than 100000 values/
const LEVELS = /more than 500 levels/

describe('the values of a body', () => {
  test.each([
    ['fields of one object', (count: number) => fields(count), MAX_JSON_MEMBERS, MEMBERS],
    ['elements', (count: number) => Array(count).fill(0), MAX_JSON_VALUES, VALUES],
    [
      'empty lists',
      (count: number) => Array.from({ length: count / 2 }, () => []),
      MAX_JSON_VALUES,
      VALUES,
    ],
    [
      'objects',
      (count: number) => Array.from({ length: count / 4 }, () => ({ a: 1 })),
      MAX_JSON_VALUES / 2,
      VALUES,
    ],
  ])('are bounded before they are parsed: %s', (_name, make, bound, message) => {
    expect(fault(JSON.stringify(make(bound)))).toBe('none')
    expect(fault(JSON.stringify(make(bound * 10)))).toMatch(message)
  })

  test('are bounded in their nesting', () => {
    expect(fault('['.repeat(500))).toBe('none')
    expect(fault('['.repeat(501))).toMatch(LEVELS)
    expect(fault(`${'['.repeat(400)}${']'.repeat(400)}`.repeat(3))).toBe('none')
  })

  const STRINGS = ['"', '\\', '\\"', '\\\\"', ',', '[{', 'é,"', '\u{1f600},', '\\u0022,']
  test.each([1, 2, 3, 5, 64])('do not include what strings contain, in chunks of %i', (size) => {
    const text = JSON.stringify(STRINGS.map((each) => each.repeat(MAX_JSON_VALUES / 4)))
    expect(fault(text.slice(0, 500_000), size)).toBe('none')
    const values = JSON.stringify([...STRINGS, ...STRINGS, fields(MAX_JSON_MEMBERS + 1)])
    expect(fault(values, size)).toMatch(MEMBERS)
  })

  test('are read once each, whatever they are', () => {
    const indexOf = vi.spyOn(Buffer.prototype, 'indexOf')
    fault(`"${'\\\\'.repeat(50_000)}${'\\"'.repeat(50_000)}"`, 1024)
    // One call for each quote and each chunk.
    expect(indexOf.mock.calls.length).toBeLessThan(50_000 + 300)
    indexOf.mockRestore()
  })
})

const TOO_MANY = { prompt: 'Hi', ...fields(MAX_JSON_MEMBERS * 10) }

describe('a refused body', () => {
  test('is refused with a code and is not parsed', async () => {
    const server = await startServer()
    const parse = vi.spyOn(JSON, 'parse')
    const { status, json } = await call(server, 'POST /api/v2/submit', { body: TOO_MANY })
    const parsed = parse.mock.calls.filter(([text]) => text.length > 10_000)
    parse.mockRestore()
    expect([status, json.error.code]).toEqual([400, 'REQUEST_INVALID'])
    expect(json.error.message).toMatch(MEMBERS)
    expect(parsed).toEqual([])
  })

  test.each(['/api/v2/submit', '/v1/chat/completions', '/v1/responses', '/v1/messages'] as const)(
    'counts against its key, and further ones are not read: %s',
    async (path) => {
      const clock = fakeClock()
      const server = await startServer({ clock, limits: { ...UNLIMITED, submitsPerMinute: 3 } })
      const statuses = async (count: number, body: object) => {
        const all = Array.from({ length: count }, () => call(server, `POST ${path}`, { body }))
        return (await Promise.all(all)).map(({ status }) => status)
      }
      expect(await statuses(2, TOO_MANY)).toEqual([400, 400])
      expect(await statuses(1, { model: 3 })).toEqual([400])
      expect(await statuses(2, TOO_MANY)).toEqual([429, 429])
      await clock.advance(60_000)
      expect(await statuses(1, TOO_MANY)).toEqual([400])
    },
  )
})

test('at most ten unknown names are listed', async () => {
  const server = await startServer()
  const body = {
    model: 'plain/m',
    messages: [{ role: 'user', content: 'Hi' }],
    ...fields(1000),
  }
  const { status, headers } = await call(server, 'POST /v1/chat/completions', { body })
  expect(status).toBe(200)
  expect(headers.get('x-turnstream-ignored')?.split(', ')).toEqual(
    Array.from({ length: 10 }, (_, at) => `f${at}`),
  )
})
