/** Requests that name what belongs to somebody, made from the description of the server's own routes. */
import type { OpenApiDocument, Operation } from '../../../src/server/openapi.ts'

/** The ids of something, be it there or not. */
export interface Ids {
  readonly turnId: string
  readonly runId: string
  readonly threadId: string
}

export interface Request {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

export interface Attack {
  readonly operationId: string
  /** What is named where, for the title of a test. */
  readonly naming: string
  readonly request: (ids: Ids) => Request
}

export interface Route {
  readonly method: string
  readonly template: string
  readonly operation: Operation
}

export function routesOf(document: OpenApiDocument): Route[] {
  return Object.entries(document.paths).flatMap(([template, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      method: method.toUpperCase(),
      template,
      operation,
    })),
  )
}

interface Body {
  plain: object
  names: readonly (keyof Ids)[]
  /** Other ways to name something. */
  references?: Readonly<Record<string, (ids: Ids) => object>>
}

/** How a response may name an earlier one, or an item of it. */
const REFERENCES: Body['references'] = {
  previous_response_id: ({ turnId }) => ({ previous_response_id: `resp_${turnId}` }),
  item_reference: ({ runId }) => ({ input: [{ type: 'item_reference', id: `msg_${runId}_1` }] }),
}

/** A body of each operation that takes one: what it needs besides ids, and which ids it may name. */
const BODIES: Record<string, Body> = {
  postSubmit: { plain: { prompt: 'Hi' }, names: ['turnId', 'runId', 'threadId'] },
  postThreadTurn: { plain: { prompt: 'Hi' }, names: ['turnId', 'runId'] },
  postRunCancel: { plain: {}, names: [] },
  postRunApproval: { plain: { approved: true }, names: [] },
  postThreads: { plain: { title: 'Mine' }, names: ['threadId'] },
  patchThread: { plain: { title: 'Mine' }, names: [] },
  postStreamTokens: { plain: {}, names: ['turnId', 'threadId'] },
  // All that its answers have of a turn is its own: it can name one only by the header.
  postChatCompletions: {
    plain: { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream: true },
    names: [],
  },
  postResponses: { plain: { model: 'm', input: 'Hi' }, names: [], references: REFERENCES },
  postResponseInputTokens: { plain: { input: 'Hi' }, names: [], references: REFERENCES },
  postMessages: {
    plain: { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] },
    names: [],
  },
  postMessagesCountTokens: {
    plain: { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
    names: [],
  },
}

/** Where else than in paths and bodies a request may name something. */
const PARAMETERS: Record<string, (ids: Ids) => string> = {
  'header idempotency-key': ({ runId }) => runId,
  'header last-event-id': ({ turnId }) => `${turnId}/1-1`,
  'header thread-id': ({ threadId }) => threadId,
  'header x-claude-code-session-id': ({ threadId }) => threadId,
  'header x-thread-id': ({ threadId }) => threadId,
  'query from': ({ turnId }) => `${turnId}/1-1`,
  'query after': ({ runId }) => `msg_${runId}-user-prompt`,
  'query threads': ({ threadId }) => threadId,
  'query cursor': ({ threadId }) => `999999999999999:${threadId}`,
}

/** Parameters that name nothing. */
const NAMELESS = new Set([
  'header traceparent',
  'header tracestate',
  'header x-turnstream-reattach',
  'header turnstream-cancel-on-disconnect',
  // Models are the same for every tenant.
  'query after_id',
  'query arguments',
  'query before_id',
  'query cursors',
  'query dialect',
  'query encoding',
  'query first',
  'query include',
  'query include[]',
  'query limit',
  'query order',
  'query replaced',
  'query starting_after',
  'query stream',
  'query token',
])

/**
 * Every way in which a request can name something. Throws for a route with a body, or a parameter, of which
 * nothing is said here: so that no new one is forgotten.
 */
export function attacksOf(document: OpenApiDocument): Attack[] {
  return routesOf(document).flatMap((route) => [
    ...inPath(route),
    ...inBody(route),
    ...inParameters(route),
  ])
}

function inPath({ method, template, operation }: Route): Attack[] {
  const { operationId } = operation
  const names = pathNames(template)
  if (names.length === 0) return []
  const plain = plainBody(operation)
  return [
    {
      operationId,
      naming: `${names.join(' and ')} in the path`,
      request: (ids) => ({
        method,
        path: fill(template, ids),
        ...(plain !== undefined && { body: plain }),
      }),
    },
  ]
}

function inBody({ method, template, operation }: Route): Attack[] {
  const { operationId, requestBody } = operation
  if (requestBody === undefined) return []
  const { plain, names, references = {} } = bodyOf(operationId)
  const ways = [
    ...names.map((name) => [name, (ids: Ids): object => ({ [name]: ids[name] })] as const),
    ...Object.entries(references),
  ]
  return ways.map(([name, write]) => ({
    operationId,
    naming: `${name} in the body`,
    request: (ids) => ({
      method,
      path: fill(template, OWN),
      body: { ...plain, ...write(ids) },
    }),
  }))
}

function inParameters({ method, template, operation }: Route): Attack[] {
  const { operationId, parameters } = operation
  const plain = plainBody(operation)
  return parameters.flatMap(({ in: where, name }) => {
    const key = `${where} ${name}`
    if (where === 'path' || NAMELESS.has(key)) return []
    const write = PARAMETERS[key]
    if (write === undefined) throw new Error(`${operationId}: is ${key} a name of something?`)
    const request = (ids: Ids): Request => {
      const path = fill(template, OWN)
      const value = encodeURIComponent(write(ids))
      const query = where === 'query' ? `?${name}=${value}` : ''
      return {
        method,
        path: `${path}${query}`,
        ...(where === 'header' && { headers: { [name]: write(ids) } }),
        ...(plain !== undefined && { body: plain }),
      }
    }
    return [{ operationId, naming: `${name} in the ${where}`, request }]
  })
}

/** What the attacker has itself: used where the path must lead somewhere. */
export const OWN: Ids = { turnId: 'own-turn', runId: 'own-run', threadId: 'own-thread' }

/** What the operation needs besides ids, where it takes a body. */
export function plainBody({ operationId, requestBody }: Operation): object | undefined {
  return requestBody === undefined ? undefined : bodyOf(operationId).plain
}

function bodyOf(operationId: string): (typeof BODIES)[string] {
  const body = BODIES[operationId]
  if (body === undefined) throw new Error(`${operationId} takes a body: which ids may it name?`)
  return body
}

function pathNames(template: string): string[] {
  return [...template.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
}

export function fill(template: string, ids: Ids): string {
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    // The models are the same for everybody.
    if (name === 'model') return encodeURIComponent('plain/m')
    if (name === 'approvalId') return 'approval-1'
    if (name === 'responseId') return encodeURIComponent(`resp_${ids.turnId}`)
    if (name === 'messageId') return encodeURIComponent(`msg_${ids.turnId}`)
    const id = (ids as unknown as Record<string, string | undefined>)[name]
    if (id === undefined) throw new Error(`${template}: what is ${name}?`)
    return encodeURIComponent(id)
  })
}
