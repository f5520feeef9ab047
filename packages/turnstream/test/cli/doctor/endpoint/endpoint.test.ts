/** Real servers, each with one fault that a server somewhere has: the report names exactly that one. */
import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { untilTrue } from '../../support.ts'
import { bothReports, checkNamed, PATIENCE } from '../support.ts'
import { type Faults, fakeEndpoint, json, KEY, type Stream } from './fake-endpoint.ts'
import { PLANTED_ANSWERS } from './planted-answers.ts'
import { PLANTED_CALLS } from './planted-calls.ts'
import { PLANTED_STREAMS } from './planted-streams.ts'

const ENV = { OPENAI_API_KEY: KEY }

async function reportOn(faults: Faults, env: Record<string, string> = ENV) {
  const { url } = await fakeEndpoint(faults)
  return bothReports({ args: ['--endpoint', url], env })
}

describe('reports exactly one fault for', PATIENCE, () => {
  test.each([...PLANTED_STREAMS, ...PLANTED_CALLS, ...PLANTED_ANSWERS])(
    '$fault',
    async ({ faults, check, expected, came }) => {
      const { code, report, text, json } = await reportOn(faults)
      const named = report.checks.filter(({ verdict }) => verdict === 'fail' || verdict === 'warn')
      expect(named).toEqual([
        {
          name: check,
          verdict: 'fail',
          found: expect.stringMatching(came),
          expected: expect.stringMatching(expected),
        },
      ])
      expect(code).toBe(1)
      expect(text).toMatch(new RegExp(`^fail +${check} `, 'm'))
      expect(text).toContain('expected: ')
      expect(`${text}${json}`).not.toContain(KEY)
    },
  )
})

describe('a correct server', PATIENCE, () => {
  test('passes all checks', async () => {
    const { code, report } = await reportOn({})
    expect(report.checks.filter(({ verdict }) => verdict !== 'ok')).toEqual([])
    expect(code).toBe(0)
    expect(checkNamed(report, 'parallel calls')?.found).toBe('2, each with its index')
    expect(checkNamed(report, 'first token')?.found).toMatch(/^after \d+ ms$/)
    expect(checkNamed(report, 'speed')?.found).toMatch(/tokens/)
  })

  test.each([
    [
      'comments between events',
      (stream: Stream) => {
        stream.events.splice(1, 0, ': alive', ': alive')
      },
    ],
    [
      'a byte at a time',
      (stream: Stream) => {
        stream.writes = (bytes) => [...bytes].map((byte) => Buffer.from([byte]))
      },
    ],
    [
      'usage: null in the chunks before',
      (stream: Stream) => {
        stream.events = stream.events.map((data) =>
          data
            .replace('"choices"', '"usage":null,"choices"')
            .replace('"usage":null,"choices":[],', '"choices":[],'),
        )
      },
    ],
  ])('may send %s', async (_what, change) => {
    const { report } = await reportOn({ stream: change })
    expect(report.checks.filter(({ verdict }) => verdict !== 'ok')).toEqual([])
  })

  test('is reported as buffering when all chunks arrive at once', async () => {
    const { code, report } = await reportOn({
      stream: (stream) => {
        stream.writes = (bytes) => [bytes]
      },
    })
    expect(checkNamed(report, 'pace')).toMatchObject({
      verdict: 'ok',
      found: '12 chunks in one read: the server or a proxy may be buffering',
    })
    expect(code).toBe(0)
  })

  test('skips the wrong-key check without a key', async () => {
    const { report } = await reportOn({}, {})
    expect(checkNamed(report, 'wrong key')).toMatchObject({ verdict: 'skipped' })
  })

  test('reads the key from TURNSTREAM_KEY and from _FILE variables', async () => {
    const { report } = await reportOn({}, { TURNSTREAM_KEY: KEY })
    expect(checkNamed(report, 'wrong key')).toMatchObject({ verdict: 'ok' })
  })

  test.each([
    [{}, 'it requires a key (status 401)'],
    [{ TURNSTREAM_KEY: 'another' }, 'it refuses the key (status 401)'],
  ])('that rejects the key of %j names the variable to set', async (env, found) => {
    const models = (response: ServerResponse) => void response.writeHead(401).end('{}')
    const { report, code } = await reportOn({ models }, env)
    expect(report.checks).toEqual([
      { name: 'models', verdict: 'fail', found, fix: expect.stringContaining('TURNSTREAM_KEY') },
    ])
    expect(code).toBe(1)
  })

  test.each(['', '/', '/v1', '/v1/', '/v1/chat/completions'])('is found at %j', async (path) => {
    const { url } = await fakeEndpoint()
    const { code } = await bothReports({
      args: ['--endpoint', url.replace('/v1', path), '--model', 'model-a'],
      env: ENV,
    })
    expect(code).toBe(0)
  })
})

describe('reports a server', PATIENCE, () => {
  test('that is unreachable', async () => {
    const { code, report } = await bothReports({ args: ['--endpoint', 'http://127.0.0.1:1'] })
    expect(code).toBe(1)
    expect(report.checks).toEqual([
      {
        name: 'models',
        verdict: 'fail',
        found: expect.stringContaining('http://127.0.0.1:1/v1 is unreachable'),
        fix: expect.stringContaining('curl -v http://127.0.0.1:1/v1/models'),
      },
    ])
  })

  test.each(['chat', 'responses', 'messages'])('of %s that answers nothing, once', async (api) => {
    let requests = 0
    const { url } = await fakeEndpoint({
      request: (_, response) => {
        requests += 1
        response.destroy()
        return true
      },
    })
    const args = ['--endpoint', url, '--api', api, '--model', 'model-a']
    const { code, report } = await bothReports({ args, env: { ...ENV, ANTHROPIC_API_KEY: KEY } })
    expect(code).toBe(1)
    expect(report.checks.at(-1)).toEqual({
      name: 'answer',
      verdict: 'fail',
      found: expect.stringContaining('no answer: '),
      fix: expect.stringContaining('Check that model-a answers'),
    })
    // One for each of the two reports.
    expect(requests).toBe(2)
  })

  test('that lists no models when none was given', async () => {
    const { report } = await reportOn({
      models: (response) => json(response, 200, { object: 'list', data: [] }),
    })
    expect(checkNamed(report, 'model')).toMatchObject({
      verdict: 'fail',
      fix: 'Pass --model <model>',
    })
  })

  test('without tool support', async () => {
    const { code, report } = await reportOn({
      request: (request, response) => {
        if (request?.['tools'] === undefined) return false
        json(response, 400, { error: { message: 'model-a does not support tools' } })
        return true
      },
    })
    expect(report.checks.filter(({ verdict }) => verdict !== 'ok')).toMatchObject([
      {
        name: 'tool call',
        verdict: 'warn',
        found: expect.stringContaining('does not support tools'),
      },
    ])
    expect(code).toBe(0)
  })

  test('that redirects, without following it', async () => {
    const elsewhere: unknown[] = []
    const other = await fakeEndpoint({ request: (request) => elsewhere.push(request) < 0 })
    const { report } = await reportOn({
      request: (request, response) => {
        if (request?.['stream'] !== true) return false
        response.writeHead(307, { location: `${other.url}/chat/completions` }).end()
        return true
      },
    })
    expect(checkNamed(report, 'stream status')).toMatchObject({
      verdict: 'fail',
      found: expect.stringContaining('status 307'),
    })
    expect(elsewhere).toEqual([])
  })

  test('that echoes the key, with the key redacted', async () => {
    const {
      report,
      text,
      json: written,
    } = await reportOn({
      request: (request, response) => {
        if (request !== undefined) return false
        response.writeHead(500).end(`no JSON from ${KEY}`)
        return true
      },
    })
    expect(checkNamed(report, 'malformed body')?.found).toBe('status 500: no JSON from [redacted]')
    expect(`${text}${written}`).not.toContain(KEY)
  })

  test('that notices an aborted stream', async () => {
    let streams = 0
    let left = 0
    const { report } = await reportOn({
      request: (request, response) => {
        if (request?.['stream'] !== true) return false
        streams += 1
        if (streams % 5 !== 0) return false
        // It would never end by itself.
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {}\n\n')
        response.on('close', () => {
          left += 1
        })
        return true
      },
    })
    await untilTrue(() => left === 2)
    expect(checkNamed(report, 'abort')).toMatchObject({ verdict: 'ok', found: 'still responds' })
  })

  test('that crashes when a client disconnects', async () => {
    const streams: unknown[] = []
    const { report } = await reportOn({
      request: (request) => {
        if (request?.['stream'] === true) streams.push(request)
        return false
      },
      models: (response) => {
        // After a report has left its last stream.
        const isDown = streams.splice(0).length === 5
        if (isDown) response.writeHead(502).end()
        else json(response, 200, { object: 'list', data: [{ id: 'model-a', object: 'model' }] })
      },
    })
    expect(checkNamed(report, 'abort')).toMatchObject({ verdict: 'fail', found: 'status 502' })
  })
})
