/** The command with `--api`, over real connections. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Api } from '../../../../../conformance/src/endpoint/exchange.ts'
import { bothReports, PATIENCE } from '../support.ts'
import { capableGateway, KEY, MODEL } from './capable-gateway.ts'

const ENV = {
  chat: { OPENAI_API_KEY: KEY },
  responses: { OPENAI_API_KEY: KEY },
  messages: { ANTHROPIC_API_KEY: KEY },
}

function reportOn(url: string, api: Api, env: Record<string, string> = ENV[api]) {
  return bothReports({ args: ['--endpoint', url, '--api', api, '--model', MODEL], env })
}

type Change = (text: string) => string

async function forward(
  target: string,
  change: Change,
  { request, response }: { request: IncomingMessage; response: ServerResponse },
): Promise<void> {
  const { method = 'GET', url = '', headers } = request
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  const { 'content-length': _length, connection: _connection, host: _host, ...rest } = headers
  const answer = await fetch(target + url, {
    method,
    headers: rest as Record<string, string>,
    ...(parts.length > 0 && { body: Buffer.concat(parts) }),
  })
  const type = answer.headers.get('content-type') ?? 'text/plain'
  const id = answer.headers.get('request-id')
  response.writeHead(answer.status, { 'content-type': type, ...(id && { 'request-id': id }) })
  response.end(change(await answer.text()))
}

/** A proxy that changes what passes. */
async function proxy(target: string, change: Change): Promise<string> {
  const server = createServer((request, response) => {
    void forward(target, change, { request, response })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('doctor --endpoint', PATIENCE, () => {
  test.each(['chat', 'messages'] as const)('--api %s finds nothing wrong here', async (api) => {
    const { url } = await capableGateway()
    const { code, report, text } = await reportOn(url, api)
    const others = report.checks.filter(({ verdict }) => verdict !== 'ok')
    expect(others.map(({ name }) => name)).toEqual(api === 'chat' ? ['parallel calls'] : [])
    expect(code).toBe(0)
    expect(text).not.toContain(KEY)
  })

  test('--api responses finds nothing wrong here', { tags: ['slow'] }, async () => {
    const { url } = await capableGateway()
    const { code, report } = await reportOn(url, 'responses')
    expect(report.checks.filter(({ verdict }) => verdict !== 'ok')).toEqual([])
    expect(code).toBe(0)
  })

  test.each([
    ['responses', /"sequence_number":\d+,/g, '', ['stream numbers', 'resume live', 'resume']],
    ['messages', /^event: message_stop\ndata: .*\n\n/gm, '', ['stream end', 'join', 'truncation']],
  ] as const)(
    '--api %s names what is wrong and exits with 1',
    { tags: ['slow'] },
    async (api, wrong, right, fails) => {
      const { url } = await capableGateway()
      const behind = await proxy(url, (text) => text.replaceAll(wrong, right))
      const { code, report, text } = await reportOn(behind, api)
      expect(code).toBe(1)
      const failed = report.checks
        .filter(({ verdict }) => verdict === 'fail')
        .map(({ name }) => name)
      expect(fails).toEqual(expect.arrayContaining(failed))
      expect(failed).toContain(fails[0])
      expect(text).toMatch(new RegExp(`^fail +${fails[0]} `, 'm'))
    },
  )

  test.each([
    ['responses', 'OPENAI_API_KEY'],
    ['messages', 'ANTHROPIC_API_KEY'],
  ] as const)('--api %s without a key names %s', async (api, variable) => {
    const { url } = await capableGateway()
    const { code, report } = await reportOn(url, api, {})
    expect(code).toBe(1)
    expect(report.checks).toMatchObject([
      { name: 'models', fix: expect.stringContaining(variable) as string },
    ])
  })

  test.each(['/v1/responses', '/v1/messages', '/v1/'])(
    'takes %s for the base URL',
    async (path) => {
      const { url } = await capableGateway()
      const { report } = await reportOn(`${url}${path}`, 'chat', {})
      expect(report.checks[0]).toMatchObject({ found: 'it requires a key (status 401)' })
    },
  )

  test('refuses an unknown API', async () => {
    const report = bothReports({ args: ['--endpoint', 'http://127.0.0.1:1', '--api', 'chats'] })
    await expect(report).rejects.toThrow(
      "--api takes one of chat, responses, messages; got 'chats'",
    )
  })

  test('--api needs --endpoint', async () => {
    await expect(bothReports({ args: ['--api', 'responses'] })).rejects.toThrow('--endpoint')
  })
})
