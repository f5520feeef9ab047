import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { openapiDocument } from '../../../src/server/openapi.ts'
import { createGateway, KeyRing, MemoryLog, Providers } from '../../../src/server.ts'
import { folderOfTest, openLog } from '../../log/embedded/support.ts'
import { NOBODY } from '../streams/server.ts'
import { sealed, startServer, type TestServer } from '../support.ts'
import { recordedLog } from './recorded-log.ts'
import {
  type Attack,
  attacksOf,
  fill,
  type Ids,
  OWN,
  plainBody,
  type Request,
  routesOf,
} from './requests.ts'

const VICTIM = { tenant: 'acme', secret: 'the-key-of-acme' }
const ATTACKER = { tenant: 'umbrella', secret: 'the-key-of-umbrella' }

/** Of the same length, so that answers which repeat them are as long. */
const THEIRS: Ids = { turnId: 'their-turn', runId: 'their-run', threadId: 'their-thread' }
const NOBODYS: Ids = { turnId: 'empty-turn', runId: 'empty-run', threadId: 'empty-thread' }

interface Stage {
  readonly server: TestServer
  readonly victims: TurnLog
  /** Lets the turn of the victim come to its end. */
  readonly finish: () => Promise<void>
  /** What the store was asked since the last look. */
  readonly asked: () => string[]
}

const STORES: Record<string, () => TurnLog | Promise<TurnLog>> = {
  memory: () => new MemoryLog(),
  embedded: () => openLog(folderOfTest()),
}

/** A server on which one tenant has a turn that runs, and the other one that has ended. */
async function stage(store = 'memory'): Promise<Stage> {
  const calls: string[] = []
  const log = recordedLog((await STORES[store]?.()) ?? new MemoryLog(), calls)
  const keys = new KeyRing(
    [VICTIM, ATTACKER].map(({ tenant, secret }) => {
      const sha256 = createHash('sha256').update(secret).digest('hex')
      return { tenant, name: 'key', sha256 }
    }),
  )
  const server = await startServer({ log, keys })
  const secret = { ...THEIRS, prompt: 'A secret', providerId: 'held' }
  const next = server.held.nextCall()
  await ask(server, { method: 'POST', path: '/api/v2/submit', body: secret }, VICTIM)
  const running = await next
  const own = { ...OWN, prompt: 'Mine' }
  await ask(server, { method: 'POST', path: '/api/v2/submit', body: own }, ATTACKER)
  await sealed(log.ofTenant(ATTACKER.tenant), OWN.turnId)
  const victims = log.ofTenant(VICTIM.tenant)
  const finish = () => {
    running.finish()
    return sealed(victims, THEIRS.turnId)
  }
  return { server, victims, finish, asked: () => calls.splice(0) }
}

interface Told {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: string
}

const NEVER_SAME = new Set(['date', 'x-request-id', 'keep-alive', 'connection'])

/** One request, and its answer as far as it can differ for a reason. A stream is read to the end of a turn. */
async function ask(
  { url }: TestServer,
  { method, path, headers = {}, body }: Request,
  as?: { readonly secret: string },
): Promise<Told> {
  const leave = new AbortController()
  const response = await fetch(`${url}${path}`, {
    method,
    redirect: 'manual',
    signal: leave.signal,
    headers: {
      ...(as && { authorization: `Bearer ${as.secret}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  let text = ''
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk
    if (/"type":"(turn_complete|response_done)"/.test(text)) break
  }
  leave.abort()
  const kept = [...response.headers].filter(([name]) => !NEVER_SAME.has(name))
  return { status: response.status, headers: Object.fromEntries(kept), body: text }
}

/**
 * Without what no two answers have in common, and with one name for whatever was named. How many states of an item
 * a stream sends, and which frames have an id, depends on how fast it is read.
 */
function comparable({ body, ...told }: Told): Told {
  const frames = body
    .replaceAll(/^id: .*\n/gm, '')
    .replaceAll(/^data: .*"status":"(create|update)".*\n\n/gm, '')
  const text = JSON.stringify({ ...told, body: frames })
    .replaceAll(/their-|empty-/g, 'named-')
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>')
    .replaceAll(/\d{10,13}/g, '<time>')
  return JSON.parse(text) as Told
}

/** All that a tenant has, as it is stored. */
async function holdings(log: TurnLog): Promise<unknown> {
  const { items: threads } = await log.listThreads()
  const turns = await Promise.all(threads.map(({ threadId }) => log.listTurns(threadId)))
  const ids = turns.flatMap(({ items }) => items.map(({ turnId }) => turnId))
  return { threads, turns, snapshots: await Promise.all(ids.map((id) => log.snapshot(id))) }
}

const { app } = createGateway({
  log: new MemoryLog(),
  instance: 'test',
  providers: new Providers([NOBODY]),
})
const document = openapiDocument(app)
const attacks = attacksOf(document)
const routes = routesOf(document)

function title({ operationId, naming }: Attack): string {
  return `${operationId} with the ${naming}`
}

describe.each(Object.keys(STORES))('W8 resources of another tenant look unknown (%s)', (store) => {
  test.each(attacks.map((attack) => [title(attack), attack] as const))('%s', async (_, attack) => {
    const { server, victims, asked } = await stage(store)
    const before = await holdings(victims)
    const empty = await stage(store)
    asked()
    empty.asked()
    const told = await ask(server, attack.request(THEIRS), ATTACKER)
    const toldOfNothing = await ask(empty.server, attack.request(NOBODYS), ATTACKER)
    expect(comparable(told)).toEqual(comparable(toldOfNothing))
    expect(told.status).toBeLessThan(500)
    expect(told.body).not.toContain('A secret')
    expect(asked()).toEqual(empty.asked())
    expect(await holdings(victims)).toEqual(before)
  })
})

describe('W8 resources of another tenant look unknown', () => {
  test.each(routes.filter(({ template }) => /\{(?!model)/.test(template)))(
    'but not to their owner: $method $template',
    async ({ method, template, operation }) => {
      const { server, finish } = await stage()
      const plain = plainBody(operation)
      const body = plain && { body: plain }
      const request = (ids: Ids) => ({ method, path: fill(template, ids), ...body })
      // A stream that is read to its end needs one; a second turn needs the first to be running.
      if (method === 'GET') await finish()
      const [told, toldOfNothing] = [
        await ask(server, request(THEIRS), VICTIM),
        await ask(server, request(NOBODYS), VICTIM),
      ]
      expect(comparable(told)).not.toEqual(comparable(toldOfNothing))
    },
  )

  const templates = [...new Set(routes.map(({ template }) => template))]

  test.each(templates)('to any method of %s', async (template) => {
    const { server, victims } = await stage()
    const before = await holdings(victims)
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const [told, toldOfNothing] = [
        await ask(server, { method, path: fill(template, THEIRS) }, ATTACKER),
        await ask(server, { method, path: fill(template, NOBODYS) }, ATTACKER),
      ]
      expect(comparable(told), `${method} ${template}`).toEqual(comparable(toldOfNothing))
    }
    expect(await holdings(victims)).toEqual(before)
  })

  test('and thread streams do not mix turns of threads with the same id', async () => {
    const { server } = await stage()
    const own = { prompt: 'Mine', threadId: THEIRS.threadId, turnId: 'mine' }
    await ask(server, { method: 'POST', path: '/api/v2/submit', body: own }, ATTACKER)
    const path = `/xapi/threads/${THEIRS.threadId}/stream`
    const leave = new AbortController()
    const response = await fetch(`${server.url}${path}`, {
      signal: leave.signal,
      headers: { authorization: `Bearer ${ATTACKER.secret}` },
    })
    let read = ''
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      read += chunk
      const ends = read.split('"type":"turn_complete"').length - 1
      if (ends === 1 && !read.includes('"turnId":"last"')) {
        const next = { prompt: 'Theirs', threadId: 'another', turnId: 'theirs' }
        await ask(server, { method: 'POST', path: '/api/v2/submit', body: next }, VICTIM)
        const last = { prompt: 'Mine', threadId: THEIRS.threadId, turnId: 'last' }
        await ask(server, { method: 'POST', path: '/api/v2/submit', body: last }, ATTACKER)
      }
      if (ends === 2) break
    }
    leave.abort()
    expect(read).toContain('"turnId":"mine"')
    expect(read).not.toMatch(/theirs|their-turn|A secret/)
  })
})

/** In our words, and in those of OpenAI. */
const KEY_REFUSED = /"KEY_|"invalid_api_key"|"authentication_error"/

describe('W8 without a key', () => {
  const open = routes.filter(({ operation }) => operation.security?.length === 0)

  test('only routes without turn data are answered', () => {
    expect(open.map(({ operation }) => operation.operationId).toSorted()).toEqual([
      'getDocs',
      'getHealth',
      'getHello',
      'getOpenapi',
      'getReady',
    ])
  })

  test.each(routes.map((route) => [`${route.method} ${route.template}`, route] as const))(
    '%s',
    async (_, { method, template, operation }) => {
      const { server, asked } = await stage()
      asked()
      for (const as of [undefined, { secret: 'no-such-key' }]) {
        const told = await ask(server, { method, path: fill(template, THEIRS) }, as)
        if (operation.security?.length === 0) expect(told.status).toBe(200)
        else expect(told).toMatchObject({ status: 401, body: expect.stringMatching(KEY_REFUSED) })
      }
      if (operation.security?.length !== 0) expect(asked()).toEqual([])
    },
  )
})
