import { jsonObject } from '@turnstream/core/internal/formats/request-schemas'
import type {
  ListedTurn,
  NewThread,
  ThreadRecord,
  TurnLog,
} from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import {
  errorObjectSchema,
  turnStatusSchema,
  usageSchema,
} from '@turnstream/core/internal/schemas/stream-event'
import * as z from 'zod'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { encodeJson, encodePage, sendRead } from '../json-response.ts'
import * as spec from './spec.ts'

/** Attempts before a change that always conflicts is refused. */
const MAX_ATTEMPTS = 20

const titleSchema = z.string().max(1000)
const metadataSchema = jsonObject(16_384)
const timeSchema = z.number().describe('Milliseconds since the epoch')

export const newThreadSchema = spec
  .object({
    threadId: spec.id.exactOptional(),
    title: titleSchema.exactOptional(),
    metadata: metadataSchema.exactOptional(),
  })
  .meta({ id: 'NewThread', examples: [{ title: 'A thread' }] })

/** `null` removes a field; a missing field is unchanged. */
export const threadChangesSchema = spec
  .object({
    title: titleSchema.nullable().exactOptional(),
    metadata: metadataSchema.nullable().exactOptional(),
  })
  .refine(({ title, metadata }) => title !== undefined || metadata !== undefined, {
    message: 'must have a title or metadata',
  })
  .meta({ id: 'ThreadChanges', examples: [{ title: 'A better title' }] })

const threadFields = {
  threadId: z.string(),
  title: z.string().exactOptional(),
  metadata: z.record(z.string(), z.unknown()).exactOptional(),
  createdAt: timeSchema,
  updatedAt: timeSchema.describe('When it last changed or got a turn'),
  damaged: spec.optional(
    z.literal(true),
    'In lists: its record cannot be read; delete it or create it again',
  ),
}

const threadSchema = z.object(threadFields).meta({ id: 'Thread' })

const nextCursor = spec.optional(z.string(), 'For `cursor` of the next page; missing on the last')

const threadsSchema = z
  .object({ threads: z.array(threadSchema), nextCursor })
  .meta({ id: 'Threads' })

const turnSchema = z
  .object({
    turnId: z.string(),
    runId: z.string(),
    threadId: z.string(),
    ordinal: z.number().describe('Its position in the thread, from 1'),
    createdAt: timeSchema,
    endedAt: timeSchema.exactOptional(),
    status: z.union([z.literal('in_progress'), turnStatusSchema]),
    sealed: z.boolean().describe('It has ended and its log is complete'),
    expired: z.boolean().describe('Its log was removed; only this record remains'),
    usage: usageSchema.exactOptional(),
    finishReason: z.string().exactOptional(),
    error: errorObjectSchema.exactOptional(),
    cancelReason: z.string().exactOptional(),
    replaces: spec.optional(z.string(), 'The turn that it replaces, together with later ones'),
    replacedBy: spec.optional(z.string(), 'The turn that replaced it'),
    damaged: spec.optional(z.literal(true), 'Its record cannot be read'),
  })
  .meta({ id: 'Turn' })

const turnsSchema = z.array(turnSchema).describe('Newest first')

const threadWithTurnsSchema = z
  .object({ ...threadFields, turns: turnsSchema, nextCursor })
  .meta({ id: 'ThreadWithTurns' })

const params = z.object({ threadId: spec.id })

const listRoute = spec.route('get', ROUTES.threads, {
  summary: 'List threads',
  description: 'Most recently changed first. A new turn counts as a change.',
  tags: ['threads'],
  request: { query: spec.pageQuery() },
  responses: { 200: spec.json('A page of threads', threadsSchema) },
  refusals: [...spec.READ_REFUSALS, 'CURSOR_INVALID'],
})

const createThreadRoute = spec.route('post', ROUTES.threads, {
  summary: 'Create a thread',
  description:
    'The first turn of a thread creates it, too. An existing thread is returned unchanged.',
  tags: ['threads'],
  request: { body: spec.jsonBody(newThreadSchema, false) },
  responses: {
    200: spec.json('It already existed and was not changed', threadSchema),
    201: spec.json('It was created', threadSchema),
  },
  refusals: ['STORE_FULL', 'SUBMITS_LIMITED', 'THREADS_LIMITED', 'THREAD_CHANGED'],
})

const readRoute = spec.route('get', ROUTES.thread, {
  summary: 'Retrieve a thread and its newest turns',
  tags: ['threads'],
  request: { params, query: spec.pageQuery().extend(spec.replacedQuery) },
  responses: { 200: spec.json('The thread, with a page of its turns', threadWithTurnsSchema) },
  refusals: [...spec.READ_REFUSALS, 'CURSOR_INVALID', 'THREAD_UNKNOWN'],
})

const changeRoute = spec.route('patch', ROUTES.thread, {
  summary: 'Update the title or metadata of a thread',
  description:
    'Each field is replaced as a whole; `null` removes it, and a missing field is unchanged.',
  tags: ['threads'],
  request: { params, body: spec.jsonBody(threadChangesSchema) },
  responses: { 200: spec.json('The updated thread', threadSchema) },
  refusals: ['STORE_FULL', 'THREAD_CHANGED', 'THREAD_UNKNOWN'],
})

const deleteRoute = spec.route('delete', ROUTES.thread, {
  summary: 'Delete a thread and its turns',
  description: 'Running turns are cancelled. Streams of the thread and its turns end.',
  tags: ['threads'],
  request: { params },
  responses: { 204: { description: 'It was deleted' } },
  refusals: ['THREAD_UNKNOWN'],
})

export function addThreadRoutes(app: GatewayApp, context: GatewayContext): void {
  const { generateId, limits } = context

  app.openapi(listRoute, (c) =>
    sendRead(c, context, (log) =>
      encodePage(c.req.valid('query'), {
        head: '{"threads":[',
        list: (page) => log.listThreads(page),
        encode: (record) => [encodeJson(toThread(record))],
      }),
    ),
  )

  app.openapi(createThreadRoute, async (c) => {
    const { log, threadQuota } = c.get('space')
    const { threadId = generateId(), ...given } = c.req.valid('json')
    return withRetries(async () => {
      const existing = await log.getThread(threadId).catch(ifDamaged)
      if (existing !== undefined) return c.json(toThread(existing), 200)
      const release = await threadQuota.reserve()
      try {
        limits.admitThread(c.get('caller'))
        return c.json(toThread(await log.putThread({ threadId, ...given }, null)), 201)
      } catch (error) {
        release()
        throw error
      }
    })
  })

  app.openapi(readRoute, (c) =>
    sendRead(c, context, async (log) => {
      const record = await existingThread(log, c.req.valid('param').threadId)
      const options = { ...c.req.valid('query'), first: 'newest' } as const
      return encodePage(options, {
        head: `${JSON.stringify(toThread(record)).slice(0, -1)},"turns":[`,
        list: (page) => log.listTurns(record.threadId, page),
        encode: (turn) => [encodeJson(toTurn(turn))],
      })
    }),
  )

  app.openapi(changeRoute, async (c) => {
    const { log } = c.get('space')
    const { threadId } = c.req.valid('param')
    const thread = await withRetries(async () => {
      const record = await existingThread(log, threadId)
      return log.putThread(applyChanges(record, c.req.valid('json')), record)
    })
    return c.json(toThread(thread), 200)
  })

  app.openapi(deleteRoute, async (c) => {
    const { log, newTurns, threadQuota } = c.get('space')
    const { threadId } = c.req.valid('param')
    await deleteThread(log, threadId)
    threadQuota.release()
    newTurns.announce(threadId)
    return c.body(null, 204)
  })
}

/** Retries on conflicts: other requests or instances may change the same thread. */
export async function withRetries<T>(change: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await change()
    } catch (error) {
      if (!hasCode(error, 'THREAD_CHANGED') || attempt === MAX_ATTEMPTS) throw error
    }
  }
}

async function deleteThread(log: TurnLog, threadId: string): Promise<void> {
  const page = await log.listTurns(threadId, { first: 'newest', limit: 1 }).catch(ifDamaged)
  const newest = page?.items[0]
  // Otherwise its owner would notice only at its next write, and the provider call would continue.
  if (newest?.sealed === false) await log.requestCancel(newest.turnId, 'the thread was deleted')
  if (!(await log.deleteThread(threadId))) throw new TurnstreamError('THREAD_UNKNOWN', threadId)
}

/** Lets a damaged thread be created again, and damaged threads and turns be deleted. */
export function ifDamaged(error: unknown): undefined {
  if (!hasCode(error, 'STORE_CORRUPT')) throw error
}

export async function existingThread(log: TurnLog, threadId: string): Promise<ThreadRecord> {
  const record = await log.getThread(threadId)
  if (record === undefined) throw new TurnstreamError('THREAD_UNKNOWN', threadId)
  return record
}

function applyChanges(
  { threadId, ...record }: ThreadRecord,
  { title = record.title, metadata = record.metadata }: z.infer<typeof threadChangesSchema>,
): NewThread {
  return { threadId, ...(title != null && { title }), ...(metadata != null && { metadata }) }
}

/** The public part of a thread's record. */
function toThread(record: ThreadRecord): z.infer<typeof threadSchema> {
  const { creation: _creation, version: _version, ...thread } = record
  return thread
}

/** The public part of a turn's record: without its writer, its request and store internals. */
function toTurn(record: ListedTurn): z.infer<typeof turnSchema> {
  const { owner: _owner, epoch: _epoch, request: _request, ...rest } = record
  const { responseBytes: _bytes, contentMs: _ms, ...turn } = rest
  return turn
}
