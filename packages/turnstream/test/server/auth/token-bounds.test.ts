import { describe, expect, test } from 'vitest'
import { openapiDocument } from '../../../src/server/openapi.ts'
import { MemoryLog } from '../../../src/server.ts'
import { gatewayOn } from '../streams/server.ts'
import type { TestServer } from '../support.ts'
import { withKey } from './support.ts'
import { STREAMS, stage, tokenFor } from './token-stage.ts'

describe('a token only opens streams', () => {
  // Only for its description, which needs no port.
  const document = openapiDocument(gatewayOn(new MemoryLog()).app)
  const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { security, operationId }]) => ({
      ...{ method: method.toUpperCase(), path, security, operationId },
    })),
  )
  const closed = routes.filter(({ security }) => !security.some((each) => 'streamToken' in each))

  test('the table covers most routes', () => {
    expect(routes.length - closed.length).toBe(4)
    expect(closed.length).toBeGreaterThan(10)
  })

  test.each(closed)('$method $path refuses it', async ({ method, path, security }) => {
    const server = await stage()
    for (const what of [{ turnId: 'a1' }, { threadId: 'a' }]) {
      const token = await tokenFor(server, what)
      const filled = path
        .replace('{runId}', 'run-a1')
        .replace('{turnId}', 'a1')
        .replace('{threadId}', 'a')
      const answers = [
        await ask(server, method, `${filled}?token=${token}`),
        // Nor anywhere else where a key would be taken.
        await ask(server, method, filled, withKey(token)),
        await ask(server, method, filled, { 'x-api-key': token }),
      ]
      const isVendors = path.startsWith('/v1/')
      const isAnthropics = path.startsWith('/v1/messages')
      const vendorCode = isAnthropics ? 'authentication_error' : 'invalid_api_key'
      const refused = isVendors
        ? Array.from({ length: 3 }, () => vendorCode)
        : ['KEY_REQUIRED', 'KEY_INVALID', 'KEY_INVALID']
      const codes = security.length === 0 ? [''] : refused
      for (const [index, { status, text }] of answers.entries()) {
        expect(status).toBe(security.length === 0 ? 200 : 401)
        expect(text).toContain(codes[index] ?? '')
        expect(text).not.toContain(token)
      }
      expect((await server.log.ofTenant('acme').getTurn('a1'))?.turnId).toBe('a1')
    }
  })

  test.each(['HEAD', 'POST', 'PUT', 'DELETE', 'PATCH'])(
    '%s of a stream refuses it',
    async (method) => {
      const server = await stage()
      const token = await tokenFor(server, { threadId: 'a' })
      for (const path of STREAMS) {
        expect((await ask(server, method, `${path}?token=${token}`)).status).toBe(401)
      }
    },
  )

  test.each([
    '/xapi/turns/a1/stream/',
    '/xapi/turns/a1/stream/x',
    '/xapi/turns//stream',
    '/xapi/turns/a1/../a1',
    '/xapi/turns/a1%2fstream',
    '/api/v2/stream/',
    '/api/v2/stream/run-a1/x',
    '/x/xapi/turns/a1/stream',
    '/api/v2/runs/run-a1#/xapi/turns/a1/stream',
  ])('%s is not a stream', async (path) => {
    const server = await stage()
    const token = await tokenFor(server, { threadId: 'a' })
    expect((await ask(server, 'GET', `${path}?token=${token}`)).status).toBe(401)
  })
})

test('a token is never in a response or a log', async () => {
  const server = await stage()
  const token = await tokenFor(server, { threadId: 'a' })
  const forged = `${token}forged`
  for (const each of [token, forged]) {
    for (const path of [
      ...STREAMS,
      '/',
      '/docs',
      '/openapi.json',
      '/nowhere',
      '/xapi/turns/a%20b/stream',
      '/xapi/threads/a',
    ]) {
      for (const more of ['', '&encoding=zip', '&from=x', `&token=${each}`]) {
        const leave = new AbortController()
        const init = { signal: leave.signal, redirect: 'manual' } as const
        const response = await fetch(`${server.url}${path}?token=${each}${more}`, init)
        const isStream = response.headers.get('content-type')?.startsWith('text/event-stream')
        const said = isStream === true ? '' : await response.text()
        leave.abort()
        expect(JSON.stringify([said, [...response.headers]])).not.toContain(token)
      }
    }
  }
  expect(JSON.stringify(server.errors)).not.toContain(token)
})

async function ask({ url }: TestServer, method: string, path: string, headers = {}) {
  const response = await fetch(`${url}${path}`, { method, headers })
  return { status: response.status, text: await response.text() }
}
