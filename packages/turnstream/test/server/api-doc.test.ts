/** docs/api.md describes the routes that exist, their statuses and codes, and its commands work in order. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linesOf, outdent, pattern } from '../../../../test/repository/printed.ts'
import { read } from '../../../../test/repository/sources.ts'
import { section, tableRows } from '../../../../test/repository/tables.ts'
import { ERROR_CODES, type ErrorCode } from '../../../core/src/index.ts'
import { submitBodySchema } from '../../src/server/routes/submit.ts'
import { type Process, turnstream } from '../cli/process.ts'
import { startServer } from './support.ts'

const ADDRESS = 'http://127.0.0.1:4010'
const doc = read('docs/api.md')

const routes = [...doc.matchAll(/^### ([A-Z]+) (\/\S+)\n(.*?)(?=^##)/gms)].map(
  ([, method = '', path = '', text = '']) => ({ method, path, text }),
)
type Route = (typeof routes)[number]

/** Shell blocks, each followed by what it prints, if it prints anything. */
const blocks = [...doc.matchAll(/^```sh\n(.*?)^```\n(?:\n((?: {4}[^\n]*\n)+))?/gms)].map(
  ([, code = '', printed = '']) => ({ code, printed: outdent(printed) }),
)

/** `404 A, B; 409 C` as pairs of a status and a code, or a status alone. */
function parseResponses(text: string): { status: string; codes: ErrorCode[] }[] {
  return text.split(';').map((part) => ({
    status: /\b\d{3}\b/.exec(part)?.[0] ?? '',
    codes: [...part.matchAll(/`([A-Z_]{5,})`/g)].map(([, code = '']) => code as ErrorCode),
  }))
}

function responsesOf({ text }: Route): ReturnType<typeof parseResponses> {
  const [, own = '', base = ''] =
    /^Responses: (.*?)(?:; otherwise as `([^`]*)`\..*)?\n\n/ms.exec(`${text}\n`) ?? []
  const inherited = routes.find(({ method, path }) => `${method} ${path}` === base)
  const more = inherited === undefined ? [] : responsesOf(inherited)
  return [...parseResponses(own), ...more.filter(({ status }) => status >= '300')]
}

const common = tableRows(section(doc, 'Common errors')).flatMap(([, cell = '']) =>
  parseResponses(cell),
)
const COMMON = new Set(common.flatMap(({ codes }) => codes))

describe('docs/api.md', () => {
  test('has a section for every route', async () => {
    const { document } = await startServer()
    const served = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    expect(routes.map(({ method, path }) => `${method} ${path}`).toSorted()).toEqual(
      served.toSorted(),
    )
  })

  test.each(routes)('lists the statuses and codes of $method $path', async (route) => {
    const { document } = await startServer()
    const responses = document.paths[route.path]?.[route.method.toLowerCase()]?.responses ?? {}
    const described = Object.values(responses).flatMap(({ description }) =>
      [...description.matchAll(/`([A-Z_]+)`/g)].map(([, code = '']) => code as ErrorCode),
    )
    const documented = responsesOf(route)
    const specific = (codes: ErrorCode[]) =>
      [...new Set(codes)].filter((code) => !COMMON.has(code)).toSorted()
    expect(specific(documented.flatMap(({ codes }) => codes))).toEqual(specific(described))
    const successes = (statuses: string[]) => statuses.filter((status) => status < '300').toSorted()
    expect(successes(documented.map(({ status }) => status))).toEqual(
      successes(Object.keys(responses)),
    )
  })

  test('lists every field of a submit', () => {
    const rows = tableRows(section(doc, 'POST /api/v2/submit'))
    const names = rows.flatMap(([cell = '']) => cell.replaceAll('`', '').split(', '))
    expect(names.toSorted()).toEqual(Object.keys(submitBodySchema.shape).toSorted())
  })

  test('gives every code its status', () => {
    const all = [...common, ...routes.flatMap(responsesOf)]
    const wrong = all.flatMap(({ status, codes }) =>
      codes.filter((code) => `${ERROR_CODES[code].status}` !== status),
    )
    expect(wrong).toEqual([])
  })

  test.each(routes)('shows a request to $method $path', ({ method, path, text }) => {
    const [last = ''] = [...text.matchAll(/^```sh\n(.*?)^```/gms)].map(([, code]) => code).slice(-1)
    const address = `${ADDRESS}${path.replaceAll(/\{\w+\}/g, '[\\w%]+')}`
    expect(last).toMatch(new RegExp(`${address}['?\\s]`))
    const flag = /-X (\w+)/.exec(last)?.[1]
    expect(flag ?? (last.includes(" -d '") ? 'POST' : 'GET')).toBe(method)
  })
})

describe('the commands of docs/api.md', () => {
  let folder = ''
  let server: Process
  let url = ''

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'turnstream-api-'))
    writeFileSync(join(folder, '.curlrc'), 'fail-with-body\n')
    const args = ['serve', '--port', '0', '--store', 'memory', '--scripted-speed', '10']
    server = turnstream(args, { cwd: folder, outlives: true })
    url = (await server.printed(/^turnstream listening on (\S+)\n/))[1] ?? ''
  }, 60_000)

  afterAll(async () => {
    server.child.kill('SIGKILL')
    await server.ended
    rmSync(folder, { recursive: true, force: true })
  })

  // In the order of the document: later commands use what earlier ones created.
  test.each(blocks)('$code', { timeout: 60_000 }, ({ code, printed }) => {
    const { stdout, status } = spawnSync('sh', ['-c', code.replaceAll(ADDRESS, url)], {
      cwd: folder,
      env: { ...process.env, CURL_HOME: folder },
      encoding: 'utf8',
      timeout: 45_000,
    })
    expect([status, stdout]).toEqual([exitCode(code, printed), stdout])
    expect(
      linesOf(stdout)
        .map((line) => `${line}\n`)
        .join(''),
    ).toMatch(pattern(printed))
  })
})

/** What curl exits with: 28 after `--max-time`, 22 for a status of 400 or more. */
function exitCode(code: string, printed: string): number {
  if (code.includes('--max-time')) return 28
  return printed.startsWith('{"error"') ? 22 : 0
}
