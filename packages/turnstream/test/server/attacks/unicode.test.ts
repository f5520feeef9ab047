/** Characters that look like others, like nothing, or are none. */
import { describe, expect, test, vi } from 'vitest'
import { sendRaw } from '../raw-http.ts'
import { call, finishedTurn, startServer } from '../support.ts'

// Many requests in one test, on a machine that runs everything else at the same time.
vi.setConfig({ testTimeout: 30_000 })

const hex = (text: string) =>
  Array.from(text, (char) => `U+${char.codePointAt(0)?.toString(16).padStart(4, '0')}`).join(' ')

const UNSEEN: [name: string, char: string][] = [
  ['zero width space', '\u200b'],
  ['zero width joiner', '\u200d'],
  ['zero width non-joiner', '\u200c'],
  ['word joiner', '\u2060'],
  ['byte order mark', '\ufeff'],
  ['soft hyphen', '\u00ad'],
  ['combining grapheme joiner', '\u034f'],
  ['right-to-left override', '\u202e'],
  ['left-to-right mark', '\u200e'],
  ['isolate', '\u2066'],
  ['Arabic letter mark', '\u061c'],
  ['Hangul filler', '\u3164'],
  ['variation selector', '\ufe0f'],
  ['tag', '\u{e0041}'],
  ['Mongolian vowel separator', '\u180e'],
  ['interlinear annotation', '\ufff9'],
]

const NONE: [name: string, char: string][] = [
  ['NUL', '\0'],
  ['escape', '\u001b'],
  ['DEL', '\u007f'],
  ['a control of C1', '\u0085'],
  ['no-break space', '\u00a0'],
  ['ideographic space', '\u3000'],
  ['line separator', '\u2028'],
  ['half a character', '\ud83e'],
  ['the other half', '\uddf5'],
]

describe('an id with invisible characters', () => {
  test.each([...UNSEEN, ...NONE])('is refused on every route: %s', async (_name, char) => {
    const server = await startServer()
    const id = `a${char}b`
    for (const name of ['turnId', 'threadId', 'runId']) {
      const body = { prompt: 'Hi', [name]: id }
      const { status, json } = await call(server, 'POST /api/v2/submit', { body })
      expect([name, status, json.error.code]).toEqual([name, 400, 'REQUEST_INVALID'])
      expect(json.error.details[0].path).toBe(`body.${name}`)
    }
    expect((await call(server, 'POST /api/v2/threads', { body: { threadId: id } })).status).toBe(
      400,
    )
    // Half of a character has no place in an address.
    if (/\p{Cs}/u.test(char)) return
    for (const path of ['api/v2/runs', 'api/v2/stream', 'xapi/turns', 'xapi/threads']) {
      const asked = await call(server, `GET /${path}/${encodeURIComponent(id)}`)
      expect([path, asked.status, hex(char)]).toEqual([path, 400, hex(char)])
    }
    expect(server.errors).toEqual([])
  })
})

describe('ids that look the same', () => {
  test.each([
    ['composed and not', 'é', 'e\u0301'],
    ['Latin and Cyrillic', 'a', 'а'],
    ['the sign and the letter', 'K', '\u212a'],
    ['wide and narrow', 'A', 'Ａ'],
    ['small and large', 'a', 'A'],
    ['a ligature', 'fi', 'ﬁ'],
    ['with and without a dot', 'i', 'ı'],
  ])('are different: %s', async (_name, one, other) => {
    const server = await startServer()
    await finishedTurn(server, { turnId: one, threadId: one })
    const unknown = await call(server, `GET /xapi/turns/${encodeURIComponent(other)}`)
    expect(unknown.json.error.code).toBe('TURN_UNKNOWN')
    await finishedTurn(server, { turnId: other, threadId: other })
    for (const id of [one, other]) {
      const { json } = await call(server, `GET /xapi/turns/${encodeURIComponent(id)}`)
      expect(json.turnId).toBe(id)
    }
    expect((await server.log.listThreads()).items).toHaveLength(2)
  })
})

describe('a text', () => {
  test.each([
    ['right to left', 'שלום עולם'],
    ['that turns its direction', 'a\u202eb\u202c'],
    ['of joined signs', '👩‍👩‍👧‍👦'],
    ['with a mark of order', '\ufeffa'],
    ['with a noncharacter', '\uffff\ufffe\u{10ffff}'],
    ['with half a character', 'a\ud800b'],
    ['with NUL', 'a\0b'],
    ['of many marks on one letter', `a${'\u0301'.repeat(500)}`],
    ['that is not normalised', 'e\u0301'],
  ])('%s is stored unchanged', async (_name, text) => {
    const server = await startServer()
    const thread = { threadId: 'h', title: text, metadata: { [text]: text } }
    expect((await call(server, 'POST /api/v2/threads', { body: thread })).status).toBe(201)
    expect((await call(server, 'GET /api/v2/threads/h')).json).toMatchObject(thread)
    const { runId } = await finishedTurn(server, { prompt: `x${text}`, threadId: 'h' })
    const { json: run } = await call(server, `GET /api/v2/runs/${runId}`)
    expect(run.output_items[0].content).toBe(`x${text}`)
  })
})

describe('a body that is not UTF-8', () => {
  const around = (...bytes: number[]) =>
    Buffer.concat([Buffer.from('{"prompt":"'), Buffer.from(bytes), Buffer.from('"}')])

  test.each([
    ['a slash that is too long', around(0xc0, 0xaf)],
    ['a NUL that is too long', around(0xc0, 0x80)],
    ['a quote that is too long', around(0xe0, 0x80, 0xa2)],
    ['half a character', around(0xed, 0xa0, 0x80)],
    ['beyond the last character', around(0xf4, 0x90, 0x80, 0x80)],
    ['a stray continuation byte', around(0x80)],
    ['a character that is cut off', around(0xf0, 0x9f, 0xa7)],
    ['Latin-1', around(0xfc)],
    ['UTF-16', Buffer.from('{"prompt":"Hi"}', 'utf16le')],
    ['UTF-32', Buffer.from([0x7b, 0, 0, 0, 0x7d, 0, 0, 0])],
  ])('is REQUEST_INVALID: %s', async (_name, body) => {
    const server = await startServer()
    const headers = { 'content-type': 'application/json' }
    const refused = await fetch(`${server.url}/api/v2/submit`, { method: 'POST', headers, body })
    expect(refused.status).toBe(400)
    expect(await refused.json()).toMatchObject({ error: { code: 'REQUEST_INVALID' } })
    expect((await server.log.listThreads()).items).toEqual([])
  })

  test('may start with a byte order mark', async () => {
    const server = await startServer()
    const headers = { 'content-type': 'application/json' }
    const body = Buffer.from('\ufeff{"prompt":"Hi"}')
    const sent = await fetch(`${server.url}/api/v2/submit`, { method: 'POST', headers, body })
    expect(sent.status).toBe(202)
  })
})

describe('a URL', () => {
  const get = async (path: string) => {
    const server = await startServer()
    await finishedTurn(server, { turnId: 'known', threadId: 'known' })
    const bytes = Buffer.from(
      `GET ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`,
      'latin1',
    )
    const { status, body } = await sendRaw(server.url, bytes)
    expect(server.errors).toEqual([])
    return [status, status === 200 ? JSON.parse(body).turnId : JSON.parse(body).error.code]
  }

  test.each([
    // Escapes are read once.
    ['/xapi/turns/%6bnown', 200, 'known'],
    ['/xapi/turn%73/known', 200, 'known'],
    ['/xapi/turns/%256bnown', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns/known%2Fstream', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns/known%252Fstream', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns/a%2f..%2fknown', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns/known%3Flimit=1', 404, 'TURN_UNKNOWN'],
    // Steps are taken as every browser and proxy takes them.
    ['/xapi/turns/../turns/known', 200, 'known'],
    ['/xapi/./turns/known', 200, 'known'],
    ['/nowhere/../xapi/turns/known', 200, 'known'],
    ['/xapi/turns/other/%2e%2e/known', 200, 'known'],
    ['/../../../xapi/turns/known', 200, 'known'],
    ['/xapi/turns/..', 404, 'ROUTE_UNKNOWN'],
    ['/xapi/turns/%2e%2e/%2e%2e/etc/passwd', 404, 'ROUTE_UNKNOWN'],
    ['/..%2f..%2fetc%2fpasswd', 404, 'ROUTE_UNKNOWN'],
    ['/xapi/turns/..%5c..%5cknown', 404, 'TURN_UNKNOWN'],
    // Another case, another slash, another end: another path.
    ['/XAPI/turns/known', 404, 'ROUTE_UNKNOWN'],
    ['/xapi//turns/known', 404, 'ROUTE_UNKNOWN'],
    ['//xapi/turns/known', 404, 'ROUTE_UNKNOWN'],
    ['/xapi/turns/known/', 404, 'ROUTE_UNKNOWN'],
    ['/xapi/turns/known;a=b', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns/', 404, 'ROUTE_UNKNOWN'],
    // What is no text is refused, or is no id that anybody has.
    ['/xapi/turns/known%00', 400, 'REQUEST_INVALID'],
    ['/xapi/turns/known%0a', 400, 'REQUEST_INVALID'],
    ['/xapi/turns/known%20', 400, 'REQUEST_INVALID'],
    ['/xapi/turns/%', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns/%zz', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns/known%', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns/%c0%ae', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns/%ff', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns/%ed%a0%80', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns/%u006b', 404, 'TURN_UNKNOWN'],
    ['/xapi/turns\\known', 400, 'REQUEST_INVALID'],
    ['/xapi/turns/known\xff', 400, 'REQUEST_INVALID'],
  ])('%s is %s %s', async (path, status, told) => {
    expect(await get(path)).toEqual([status, told])
  })
})
