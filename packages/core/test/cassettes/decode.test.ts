import { Validator } from '@cfworker/json-schema'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { caseCount } from '../../../../test/case-count.ts'
import { encodeEntry, encodeHeader } from '../../src/cassettes/cassette.ts'
import { CassetteDecoder, decodeHeader, readCassette } from '../../src/cassettes/decode.ts'
import { computeOutputs } from '../../src/cassettes/layers.ts'
import { cassetteLineSchema } from '../../src/schemas.ts'
import { cassetteOf, decode, encode, HEADER, recordedCall, toolsEvents } from './samples.ts'

const HEAD = encodeHeader({ createdAt: 1000 })

function fullCassette() {
  const events = toolsEvents()
  const outputs: { at: number; output: never }[] = []
  computeOutputs(events, (output, at) => outputs.push({ at, output: output as never }))
  const header = { ...HEADER, turnId: 't', threadId: 'h' }
  return cassetteOf({ header, calls: [recordedCall('chat', 1, 7)], events, outputs })
}

describe('a cassette', () => {
  test('is read as it was written', () => {
    const cassette = fullCassette()
    const read = decode(encode(cassette))
    expect(read).toEqual(cassette)
    // Chunks of 7 bytes split characters, and arrive unchanged.
    expect(encode(cassette)).toContain('"text":')
  })

  test('keeps bytes that are not UTF-8', () => {
    const bytes = new Uint8Array([0xe2, 0x82, 0x00, 0xff])
    const line = encodeEntry({ at: 1, call: 1, bytes })
    expect(line).toBe('{"at":1,"call":1,"base64":"4oIA/w=="}\n')
    expect(decode(HEAD + line).calls[0]?.chunks[0]?.bytes).toEqual(bytes)
    const bom = encodeEntry({ at: 1, call: 1, bytes: new Uint8Array([0xef, 0xbb, 0xbf, 0x61]) })
    expect(decode(HEAD + bom).calls[0]?.chunks[0]?.bytes).toEqual(
      new Uint8Array([0xef, 0xbb, 0xbf, 0x61]),
    )
  })

  test('may have a chunk of many megabytes', () => {
    const line = encodeEntry({ at: 1, call: 1, bytes: new Uint8Array(8_000_000).fill(0xff) })
    expect(decode(HEAD + line).calls[0]?.chunks[0]?.bytes).toHaveLength(8_000_000)
  })

  test('may have calls of which little is known', () => {
    const cassette = cassetteOf({
      calls: [
        { number: 1, at: 0, chunks: [], end: { at: 5, reason: 'failed' } },
        { number: 2, at: 7, chunks: [{ at: 7, bytes: new Uint8Array([97]) }] },
      ],
    })
    const [first, second] = decode(encode(cassette)).calls
    // Without a request the first line of a call is its start.
    expect(first).toEqual({ ...cassette.calls[0], at: 5 })
    expect(second).toEqual(cassette.calls[1])
  })

  test('has a header that can be read alone', () => {
    expect(decodeHeader(HEAD.trimEnd())).toEqual(HEADER)
    expect(() => decodeHeader('{}')).toThrow('not a turnstream-cassette header')
  })

  test('may be split anywhere', () => {
    const cassette = fullCassette()
    const bytes = new TextEncoder().encode(encode(cassette))
    const decoder = new CassetteDecoder()
    for (let at = 0; at < bytes.length; at += 13) decoder.feed(bytes.subarray(at, at + 13))
    expect(decoder.end()).toEqual(cassette)
  })

  test('is in order of time', () => {
    const lines = encode(fullCassette()).trimEnd().split('\n').slice(1)
    const times = lines.map((line) => (JSON.parse(line) as { at: number }).at)
    expect(times).toEqual(times.toSorted((a, b) => a - b))
  })

  test('may end inside a line', async () => {
    const text = encode(fullCassette())
    async function* input() {
      yield new TextEncoder().encode(text.slice(0, -20))
    }
    const read = await readCassette(input())
    expect(read.events.length + read.outputs.length).toBeGreaterThan(0)
  })

  test('may have unknown fields, unknown lines, empty lines and events of unknown types', () => {
    const { event } = toolsEvents()[0]!
    const future = { ...event, type: 'new', payload: { type: 'new' } }
    const lines = ['{"at":0,"smell":"sweet"}', '', '{"at":0,"call":1,"smell":1}']
    const more = JSON.stringify({ at: 0, event: future })
    const read = decode(`${HEAD}${lines.join('\n')}\n${more}\n`)
    expect(read).toMatchObject({ events: [], calls: [{ number: 1, chunks: [] }] })
  })
})

describe('refused with CASSETTE_INVALID and the line', () => {
  const deep = `${'['.repeat(600)}${']'.repeat(600)}`
  test.each([
    ['', 'it is empty'],
    ['{}\n', 'line 1: not a turnstream-cassette header'],
    ['[]\n', 'line 1: not an object'],
    ['{"format":"turnstream-cassette","version":2,"createdAt":1}\n', 'line 1: version is 2'],
    ['{"format":"turnstream-cassette","createdAt":1}\n', 'line 1: version is missing'],
    ['{"format":"turnstream-cassette","version":1}\n', 'line 1: createdAt is not a number'],
    [HEAD.replace('}', ',"turnId":""}'), 'line 1: turnId'],
    [`${HEAD}{\n`, 'line 2: not JSON'],
    [`${HEAD}{"at":-1}\n`, 'line 2: at is not'],
    [`${HEAD}{"at":"1"}\n`, 'line 2: at is not'],
    [`${HEAD}{"at":1,"body":${deep}}\n`, 'line 2: nested'],
    [`${HEAD}{"at":1,"event":{}}\n`, 'line 2: event: type'],
    [`${HEAD}{"at":1,"output":1}\n`, 'line 2: output is not an object'],
    [`${HEAD}{"at":1,"output":{"type":"message"}}\n`, 'line 2: output has no turnId'],
    [`${HEAD}{"at":1,"output":{"type":"x","turnId":"t","threadId":"h"}}\n`, 'output.type'],
    [`${HEAD}{"at":1,"output":{"type":"message","turnId":"t","threadId":"h"}}\n`, 'itemId'],
    [
      `${HEAD}{"at":1,"output":{"type":"message","turnId":"t","threadId":"h","itemId":"i"}}\n`,
      'content',
    ],
    [
      `${HEAD}{"at":1,"output":{"type":"message","turnId":"t","threadId":"h","itemId":"i","content":""}}\n`,
      'status',
    ],
    [`${HEAD}{"at":1,"call":0,"text":""}\n`, 'line 2: call'],
    [`${HEAD}{"at":1,"call":1001,"text":""}\n`, 'line 2: call'],
    [`${HEAD}{"at":1,"call":1,"text":1}\n`, 'text is not a string'],
    [`${HEAD}{"at":1,"call":1,"base64":"a b"}\n`, 'base64 is malformed'],
    [`${HEAD}{"at":1,"call":1,"end":"well"}\n`, 'end is not one of'],
    [`${HEAD}{"at":1,"call":1,"request":1}\n`, 'request is not an object'],
    [`${HEAD}{"at":1,"call":1,"request":{"method":"POST"}}\n`, 'request.url'],
    [`${HEAD}{"at":1,"call":1,"request":{"method":"P","url":"u","headers":{"a":1}}}\n`, 'headers'],
    [
      `${HEAD}{"at":1,"call":1,"request":{"method":"P","url":"u","headers":{},"vendor":1}}\n`,
      'vendor',
    ],
    [
      `${HEAD}{"at":1,"call":1,"request":{"method":"P","url":"u","headers":{},"truncated":1}}\n`,
      'truncated',
    ],
    [`${HEAD}{"at":1,"call":1,"response":1}\n`, 'response is not an object'],
    [`${HEAD}{"at":1,"call":1,"response":{"status":99,"headers":{}}}\n`, 'status'],
    [`${HEAD}{"at":1,"call":1,"response":{"status":200}}\n`, 'response.headers'],
  ])('%#', (text, reason) => {
    expect(() => decode(text)).toThrow(reason)
    expect(() => decode(text)).toThrow(expect.objectContaining({ code: 'CASSETTE_INVALID' }))
  })
})

test.each([
  [{ maxBytes: 100 }, 'more than 100 bytes'],
  [{ maxLines: 2 }, 'more than 2 lines'],
  [{ maxLineChars: 80 }, /line \d+ has more than 80 characters/],
])('CASSETTE_TOO_LARGE beyond %j', (limits, reason) => {
  const text = encode(fullCassette())
  expect(() => decode(text, limits)).toThrow(reason)
  expect(() => decode(text, limits)).toThrow(
    expect.objectContaining({ code: 'CASSETTE_TOO_LARGE' }),
  )
})

describe('the JSON Schema', () => {
  const schema = z.toJSONSchema(cassetteLineSchema)
  const validator = new Validator(schema as never, '2020-12', true)

  test('accepts every line that is written', () => {
    const lines = encode(fullCassette()).trimEnd().split('\n')
    const bytes = encodeEntry({ at: 0, call: 1, bytes: new Uint8Array([0xff]) })
    for (const line of [...lines, bytes]) {
      const { valid, errors } = validator.validate(JSON.parse(line))
      expect(valid, `${line.slice(0, 200)} ${JSON.stringify(errors).slice(0, 500)}`).toBe(true)
    }
  })

  /** Replaces or deletes one field of a line. */
  const broken = (line: object) =>
    fc
      .tuple(fc.constantFrom(...Object.keys(line)), fc.option(fc.jsonValue({ maxDepth: 1 })))
      .map(([name, value]) => {
        const { [name]: _old, ...rest } = line as Record<string, unknown>
        return value === null ? rest : { ...rest, [name]: value }
      })

  test('and the decoder agree on broken lines of calls', () => {
    const lines = encode(cassetteOf({ calls: [recordedCall('chat', 1, 4000)] }))
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => JSON.parse(line) as object)
    const known = ['request', 'response', 'text', 'base64', 'end']
    fc.assert(
      fc.property(fc.constantFrom(...lines).chain(broken), (line) => {
        // Lines of an unknown kind are ignored.
        fc.pre(known.some((name) => name in line) && 'call' in line)
        const isAccepted = cassetteLineSchema.safeParse(line).success
        let isDecoded = true
        try {
          decode(`${HEAD}${JSON.stringify(line)}\n`)
        } catch {
          isDecoded = false
        }
        expect(isDecoded).toBe(isAccepted)
      }),
      { numRuns: caseCount(500) },
    )
  })
})
