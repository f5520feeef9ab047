/** docs/api.md says what the server does: its routes, their statuses, and lines that work as they stand. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { readUntil, sealed, startServer, type TestServer } from './support.ts'

const ADDRESS = 'http://127.0.0.1:4010'
const doc = readFileSync('docs/api.md', 'utf8')

const sections = [...doc.matchAll(/^### ([A-Z]+) (\/\S+)\n(.*?)(?=^##)/gms)].map(
  ([, method = '', path = '', text = '']) => ({
    method,
    path,
    statuses: [...text.matchAll(/^\| (\d{3}(?:, \d{3})*) \|/gm)].flatMap(([, list = '']) =>
      list.split(', '),
    ),
    codes: [...text.matchAll(/^\| \d{3}.*$/gm)].flatMap(([row]) =>
      [...row.matchAll(/`([A-Z_]{5,})`/g)].map(([, code = '']) => code),
    ),
    lines: [...text.matchAll(/^ {4}(curl .*)$/gm)].map(([, line = '']) => line),
  }),
)

/** What may happen to any request is said once, at the end of the document. */
const ALWAYS = {
  statuses: ['400', '401', '403', '414', '421', '431', '500', '503'],
  codes: [
    'REQUEST_INVALID',
    'KEY_INVALID',
    'KEY_REQUIRED',
    'TOKEN_EXPIRED',
    'TOKEN_INVALID',
    'ORIGIN_REFUSED',
    'HOST_REFUSED',
    'URL_TOO_LONG',
    'HEADERS_TOO_LARGE',
    'INTERNAL_ERROR',
    'STORE_UNAVAILABLE',
    'CONNECTIONS_LIMITED',
  ],
}

describe('docs/api.md', () => {
  test('has a section for every route', async () => {
    const { document } = await startServer()
    const served = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    expect(sections.map(({ method, path }) => `${method} ${path}`).toSorted()).toEqual(
      served.toSorted(),
    )
  })

  test.each(sections)('gives the statuses and codes of $method $path', async (section) => {
    const { document } = await startServer()
    const responses = document.paths[section.path]?.[section.method.toLowerCase()]?.responses ?? {}
    const described = Object.values(responses).flatMap(({ description }) =>
      [...description.matchAll(/`([A-Z_]+)`/g)].map(([, code = '']) => code),
    )
    const besides = (all: readonly string[], known: readonly string[]) =>
      [...new Set(all)].filter((each) => !known.includes(each)).toSorted()
    expect(besides(section.statuses, ALWAYS.statuses)).toEqual(
      besides(Object.keys(responses), ALWAYS.statuses),
    )
    const codes = besides(section.codes, ALWAYS.codes)
    // That a stream cannot be opened while the server ends is not worth a row.
    const unsaid = section.method === 'GET' ? ['SERVER_SHUTDOWN'] : []
    expect(besides(codes, unsaid)).toEqual(besides(described, [...ALWAYS.codes, ...unsaid]))
  })

  test('its lines work in the order in which they stand', async () => {
    const server = await startServer()
    for (const { method, path, lines } of sections) {
      expect([path, lines.length]).toEqual([path, 1])
      const { status, asked } = await run(server, lines[0] ?? '')
      expect(asked).toMatch(new RegExp(`^${method} ${path.replaceAll(/\{\w+\}/g, '[a-z]+')}$`))
      expect([path, status]).toEqual([path, expect.toSatisfy((code) => code >= 200 && code < 300)])
    }
  })
})

/** A line of curl as far as the document uses it. */
async function run(server: TestServer, line: string) {
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(
    ([, quoted, bare]) => quoted ?? bare ?? '',
  )
  const after = (flag: string) => words[words.indexOf(flag) + 1]
  const body = words.includes('-d') ? after('-d') : undefined
  const method = words.includes('-X') ? (after('-X') ?? '') : body === undefined ? 'GET' : 'POST'
  const address = words.find((word) => word.startsWith(ADDRESS)) ?? ''
  const url = address.replace(ADDRESS, server.url)
  const asked = `${method} ${new URL(url).pathname}`
  if (asked.endsWith('/threads/demo/stream')) {
    return { asked, status: (await readUntil(url, 'turn_complete')).status }
  }
  const headers = words.includes('-H') ? { 'content-type': 'application/json' } : {}
  const response = await fetch(url, { method, headers, ...(body !== undefined && { body }) })
  await response.text()
  if (asked === 'POST /api/v2/submit') await sealed(server.log, 'hello')
  return { asked, status: response.status }
}
