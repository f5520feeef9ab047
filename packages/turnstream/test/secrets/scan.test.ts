/**
 * A server with secrets everywhere, as a process: everything is asked of it, rightly and wrongly, with a vendor
 * that repeats all it is told. Then all that it has said, sent and kept is searched.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../scripts/redis-server.mjs'
import type { OpenApiDocument } from '../../src/server/openapi.ts'
import { untilTrue } from '../cli/support.ts'
import { routesOf } from '../server/tenants/requests.ts'
import { type HostileVendor, OUTPUT, startHostileVendor, TRICKS } from './hostile-vendor.ts'
import { leaksIn, type Secrets } from './planted.ts'
import { RecordingClient } from './recording-client.ts'
import {
  folder,
  PASSWORD,
  PROVIDERS,
  type SecretiveServer,
  type Stage,
  startWithSecrets,
  TOKEN_SECRET,
} from './secretive-server.ts'

// Processes, a Redis, some two hundred requests and calls that are made again.
const PATIENCE = { timeout: 120_000 }

/** What a client sends that is nobody's. */
const WRONG: Secrets = {
  'a wrong key': 'ts_pl4nted-wrong-key-0123456789abcdefghijklmnop',
  'a wrong token': `v1.${Buffer.from('{"pl4nted":"wrong"}').toString('base64url')}.${'A'.repeat(43)}`,
  'a cookie': 'pl4nted-cookie-0123456789',
}

const PROMPT = 'pl4nted prompt of somebody'
const CONTENT: Secrets = { 'what was asked': PROMPT, 'what was answered': OUTPUT }

function headersWith(key: string): Record<string, string> {
  return {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    cookie: WRONG['a cookie'] ?? '',
    'x-forwarded-host': 'evil.example',
    'x-client-secret': WRONG['a cookie'] ?? '',
  }
}

/** One turn for each vendor and each of its tricks, to the end. */
async function runTurns({ keys }: SecretiveServer, client: RecordingClient): Promise<void> {
  const ids = Object.keys(PROVIDERS).flatMap((id) =>
    Object.keys(TRICKS).map((trick) => [id, trick]),
  )
  const headers = headersWith(keys[0])
  await Promise.all(
    ids.map(async ([id = '', trick = '']) => {
      const turnId = `${id}-${trick}`
      const tool = { name: 'search', description: PROMPT, parameters: { type: 'object' } }
      const body = {
        turnId,
        threadId: turnId,
        prompt: PROMPT,
        model: `${id}/${trick}`,
        tools: [tool],
      }
      await client.ask('/api/v2/submit', { method: 'POST', headers, body: JSON.stringify(body) })
      await client.ask(`/api/v2/stream/${turnId}`, { headers })
      await client.ask(`/xapi/threads/${turnId}`, { headers })
    }),
  )
}

interface Asked {
  readonly method: string
  readonly path: string
  readonly hasBody: boolean
}

/** Every route of the server's own description, for a turn that is there. */
function requestsOf(document: OpenApiDocument): Asked[] {
  const turn = 'openai-compatible-answer'
  return routesOf(document)
    .filter(({ method }) => method !== 'DELETE')
    .map(({ method, template, operation }) => ({
      method,
      path: template.replaceAll(/\{\w+\}/g, turn),
      hasBody: operation.requestBody !== undefined,
    }))
}

/** Asks for everything with the right key, wrong keys, tokens, and bodies that are none. */
async function askEverything(
  { keys }: SecretiveServer,
  client: RecordingClient,
  routes: Asked[],
): Promise<void> {
  const [key, other] = keys
  const wrong = WRONG['a wrong key'] ?? ''
  const bodies = [{ prompt: PROMPT, title: PROMPT }, { turnId: 'openai-compatible-answer' }]
  const written = [...bodies.map((body) => JSON.stringify(body)), `{"prompt": ${PROMPT}`]
  const tokens = [...client.tokens, WRONG['a wrong token'] ?? '', wrong, 'v1']
  for (const { method, path, hasBody } of routes) {
    const texts = hasBody ? written : [undefined]
    const inits = [key, other, wrong].flatMap((each) =>
      texts.map((body) => ({ headers: headersWith(each), ...(body !== undefined && { body }) })),
    )
    for (const init of inits) await client.ask(path, { method, ...init })
    const twice = { ...headersWith(key), 'x-api-key': wrong }
    await client.ask(path, { method, headers: twice })
    await client.ask(path, { method, headers: { 'x-api-key': wrong } })
    await client.ask(path, { method, headers: { 'x-request-id': wrong } })
    for (const token of tokens) await client.ask(`${path}?token=${token}&from=1-1`, { method })
  }
}

/** All routes at the same time, because each waits for a store that is not there. */
async function askInVain(
  { keys }: SecretiveServer,
  client: RecordingClient,
  routes: Asked[],
): Promise<void> {
  const body = JSON.stringify({ prompt: PROMPT, title: PROMPT })
  await Promise.all(
    routes.map(({ method, path, hasBody }) => {
      const headers = { ...headersWith(keys[0]), 'x-request-id': WRONG['a wrong key'] ?? '' }
      const query = `?token=${client.tokens[0]}`
      return client.ask(`${path}${query}`, { method, headers, ...(hasBody && { body }) })
    }),
  )
}

async function sendNonsense({ keys }: SecretiveServer, client: RecordingClient): Promise<void> {
  const secret = `authorization: Bearer ${keys[0]}\r\nx-api-key: ${WRONG['a wrong key']}`
  const head = `GET /api/v2/threads?token=${WRONG['a wrong token']} HTTP/`
  await client.send(`${head}9.9\r\n${secret}\r\n\r\n`)
  await client.send(`${head}1.1\r\n${secret}\r\nbroken header\r\n\r\n`)
  await client.send(`${head}1.1\r\nhost: a b\r\n${secret}\r\nconnection: close\r\n\r\n`)
  await client.send(`${head}1.1\r\nhost: a\r\n${secret}\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`)
  await client.send(`${secret}\r\n\r\n`)
}

/** Everything below a directory, as text. */
function filesOf(directory: string): string {
  if (!existsSync(directory)) return ''
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
    .join('\n')
}

interface Run {
  readonly server: SecretiveServer
  readonly client: RecordingClient
  readonly vendor: HostileVendor
  /** All that no one but its owner may see. */
  readonly secrets: Secrets
  readonly log: string
}

/** The whole life of a server; `fail` takes its store away before the end. */
async function live(stage: Stage, fail: (ask: () => Promise<void>) => Promise<void>): Promise<Run> {
  const vendor = await startHostileVendor()
  const server = await startWithSecrets(stage, vendor)
  const client = new RecordingClient(server.url)
  const headers = headersWith(server.keys[0])
  await runTurns(server, client)
  const body = JSON.stringify({ turnId: 'openai-compatible-answer' })
  await client.ask('/api/v2/stream-tokens', { method: 'POST', headers, body })
  const document = JSON.parse(await client.ask('/openapi.json')) as OpenApiDocument
  const routes = requestsOf(document)
  await askEverything(server, client, routes)
  await sendNonsense(server, client)
  await fail(() => askInVain(server, client, routes))
  // A key where its hash should be.
  writeFileSync(server.keysFile, `one:a:${server.keys[0]}\n`)
  server.child.kill('SIGHUP')
  await untilTrue(() => server.stderr().includes('KEYS_FILE_INVALID'))
  const cmdline = `/proc/${server.child.pid}/cmdline`
  const shown = existsSync(cmdline) ? readFileSync(cmdline, 'utf8') : ''
  server.child.kill('SIGTERM')
  expect(await server.ended).toBe(0)
  const [one, two] = server.keys
  const tokens = Object.fromEntries(client.tokens.map((token, index) => [`token ${index}`, token]))
  const secrets = {
    ...PROVIDERS,
    ...tokens,
    ...WRONG,
    'the password of the store': PASSWORD,
    'the secret of tokens': TOKEN_SECRET,
    'the key of one': one,
    'the key of two': two,
  }
  return { server, client, vendor, secrets, log: `${server.stdout()}${server.stderr()}${shown}` }
}

/** That there was something to find, and that it was looked for in the right place. */
function checkThatItHappened({ client, vendor, log }: Run): void {
  for (const key of Object.values(PROVIDERS))
    expect(leaksIn(vendor.heard(), { key })).toHaveLength(1)
  expect(leaksIn(vendor.heard(), { PROMPT })).toHaveLength(1)
  const told = client.answers.join('\n')
  expect(leaksIn(told, CONTENT).map((leak) => leak.split(':')[0])).toEqual(Object.keys(CONTENT))
  for (const code of ['HTTP_401', 'HTTP_307', 'UPSTREAM_MALFORMED', 'UPSTREAM_UNREACHABLE']) {
    expect(told).toContain(code)
  }
  for (const status of [200, 202, 201, 400, 401, 404]) expect(client.statuses).toContain(status)
  expect(client.tokens.length).toBeGreaterThan(0)
  expect(log).toContain('is readable by every user of this machine')
  expect(log).toContain('shutting down')
  for (const said of ['request', 'turn started', 'turn ended']) expect(log).toContain(said)
}

function checkThatNothingLeaked({ server, client, vendor, secrets, log }: Run): void {
  expect(leaksIn(log, { ...secrets, ...CONTENT })).toEqual([])
  const told = client.answers.join('\n')
  // Where a client sent a secret in an id of its own, it gets that back.
  const own = told.replaceAll(WRONG['a wrong key'] ?? '', '')
  expect(leaksIn(own, secrets)).toEqual([])
  // Nor what is not secret, and yet nobody's business.
  const inner = { vendor: new URL(vendor.url).host, directory: server.cwd, sources: process.cwd() }
  expect(leaksIn(told, inner)).toEqual([])
  expect(told).not.toMatch(/\bat (?:async )?\S+ \(|node_modules|engine\.py|vendor=cookie/)
  const { openai, anthropic, gemini, 'openai-compatible': compatible, ...ours } = secrets
  expect([openai, anthropic, gemini, compatible]).toEqual(Object.values(PROVIDERS))
  expect(leaksIn(vendor.heard(), ours)).toEqual([])
  expect(vendor.heard()).not.toContain('evil.example')
}

describe('a server prints, sends and stores no secrets', PATIENCE, () => {
  test('with a failing Redis that has a password, and a JSON log', {
    tags: ['slow'],
  }, async () => {
    const redis = await startRedis({ args: ['--requirepass', PASSWORD, '--rdbcompression', 'no'] })
    onTestFinished(() => redis.stop())
    const store = `redis://:${encodeURIComponent(PASSWORD)}@127.0.0.1:${redis.port}`
    const run = await live({ store, json: true }, async (ask) => {
      await redis.kill()
      await ask()
    })
    checkThatItHappened(run)
    checkThatNothingLeaked(run)
    expect(run.client.statuses).toContain(503)
    const lines = run.server.stderr().trimEnd().split('\n')
    expect(lines.map((line) => (JSON.parse(line) as { code?: string }).code)).toContain(
      'STORE_UNAVAILABLE',
    )
  })

  test('with a directory and a text log', async () => {
    const directory = join(folder(), 'store')
    const run = await live({ store: directory, json: false }, async () => {})
    checkThatItHappened(run)
    checkThatNothingLeaked(run)
    const kept = filesOf(directory)
    expect(leaksIn(kept, { ask: PROMPT })).toHaveLength(1)
    expect(leaksIn(kept, run.secrets)).toEqual([])
  })
})
