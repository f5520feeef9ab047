import { createRoute } from '@hono/zod-openapi'
import * as z from 'zod'
import type { NewThread, ThreadRecord, TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { encodePage } from '../pages.ts'
import { idSchema, openapiPath, pageSchema } from '../schemas/parts.ts'
import { READ_REFUSALS, refusals } from '../schemas/refusals.ts'
import {
  newThreadSchema,
  type Thread,
  type Turn,
  threadChangesSchema,
  threadSchema,
  threadsSchema,
  threadWithTurnsSchema,
} from '../schemas/threads.ts'
import { answerRead } from '../written-json.ts'

const params = z.object({ threadId: idSchema })
const thread = { content: { 'application/json': { schema: threadSchema } } }

const listRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.threads),
  summary: 'List threads',
  description: 'The one that was last changed or got a turn comes first.',
  tags: ['threads'],
  request: { query: pageSchema() },
  responses: {
    200: { description: 'A page', content: { 'application/json': { schema: threadsSchema } } },
    ...refusals(...READ_REFUSALS, 'CURSOR_INVALID'),
  },
})

const createThreadRoute = createRoute({
  method: 'post',
  path: openapiPath(ROUTES.threads),
  summary: 'Make a thread',
  description:
    'A thread is made by its first turn as well. One that exists already is answered as it is.',
  tags: ['threads'],
  request: {
    body: { required: false, content: { 'application/json': { schema: newThreadSchema } } },
  },
  responses: {
    200: { description: 'It existed, and was not changed', ...thread },
    201: { description: 'It was made', ...thread },
    ...refusals(
      'BODY_TOO_LARGE',
      'MEDIA_TYPE_UNSUPPORTED',
      'STORE_FULL',
      'SUBMITS_LIMITED',
      'THREADS_LIMITED',
    ),
  },
})

const readRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.thread),
  summary: 'Read a thread and its newest turns',
  tags: ['threads'],
  request: { params, query: pageSchema() },
  responses: {
    200: {
      description: 'The thread, with a page of its turns',
      content: { 'application/json': { schema: threadWithTurnsSchema } },
    },
    ...refusals(...READ_REFUSALS, 'CURSOR_INVALID', 'THREAD_UNKNOWN'),
  },
})

const changeRoute = createRoute({
  method: 'patch',
  path: openapiPath(ROUTES.thread),
  summary: 'Change the title or the metadata of a thread',
  description: 'Each is replaced as a whole, and `null` takes it away; what is not named stays.',
  tags: ['threads'],
  request: {
    params,
    body: { required: true, content: { 'application/json': { schema: threadChangesSchema } } },
  },
  responses: {
    200: { description: 'The thread as it is now', ...thread },
    ...refusals('BODY_TOO_LARGE', 'MEDIA_TYPE_UNSUPPORTED', 'STORE_FULL', 'THREAD_UNKNOWN'),
  },
})

const deleteRoute = createRoute({
  method: 'delete',
  path: openapiPath(ROUTES.thread),
  summary: 'Delete a thread and its turns',
  description: 'A turn that is running is stopped. Streams of the thread and of its turns end.',
  tags: ['threads'],
  request: { params },
  responses: { 204: { description: 'It is gone' }, ...refusals('THREAD_UNKNOWN') },
})

export function addThreadRoutes(app: GatewayApp, context: GatewayContext): void {
  const { generateId, limits } = context

  app.openapi(listRoute, (c) => {
    const { log } = c.get('space')
    return answerRead<z.infer<typeof threadsSchema>>(c, context, async () => {
      const bytes = await encodePage(c.req.valid('query'), {
        head: '{"threads":[',
        list: (page) => log.listThreads(page),
        encode: (record) => encodeJson(toThread(record)),
      })
      return { bytes }
    })
  })

  app.openapi(createThreadRoute, async (c) => {
    const { log, changes, threadQuota } = c.get('space')
    const { threadId = generateId(), ...given } = c.req.valid('json')
    return changes.run(threadId, async () => {
      const existing = await log.getThread(threadId)
      if (existing !== undefined) return c.json(toThread(existing), 200)
      const release = await threadQuota.reserve()
      try {
        limits.admitThread(c.get('caller'))
        return c.json(toThread(await log.putThread({ threadId, ...given })), 201)
      } catch (error) {
        release()
        throw error
      }
    })
  })

  app.openapi(readRoute, (c) => {
    const { log } = c.get('space')
    return answerRead<z.infer<typeof threadWithTurnsSchema>>(c, context, async () => {
      const record = await existingThread(log, c.req.valid('param').threadId)
      const options = { ...c.req.valid('query'), first: 'newest' } as const
      const bytes = await encodePage(options, {
        head: `${JSON.stringify(toThread(record)).slice(0, -1)},"turns":[`,
        list: (page) => log.listTurns(record.threadId, page),
        encode: (turn) => encodeJson(toTurn(turn)),
      })
      return { bytes }
    })
  })

  app.openapi(changeRoute, async (c) => {
    const { log, changes } = c.get('space')
    const { threadId } = c.req.valid('param')
    const thread = await changes.run(threadId, async () => {
      const record = await existingThread(log, threadId)
      return log.putThread(changed(record, c.req.valid('json')))
    })
    return c.json(toThread(thread), 200)
  })

  app.openapi(deleteRoute, async (c) => {
    const { log, changes, newTurns, threadQuota } = c.get('space')
    const { threadId } = c.req.valid('param')
    await changes.run(threadId, () => deleteThread(log, threadId))
    threadQuota.release()
    newTurns.announce(threadId)
    return c.body(null, 204)
  })
}

function encodeJson(value: unknown): Buffer<ArrayBuffer>[] {
  return [Buffer.from(JSON.stringify(value))]
}

async function deleteThread(log: TurnLog, threadId: string): Promise<void> {
  const { items } = await log.listTurns(threadId, { first: 'newest', limit: 1 })
  for (const { turnId, sealed } of items) {
    // The owner would notice by itself, but only when it next writes: until then the provider is paid.
    if (!sealed) await log.requestCancel(turnId, 'the thread was deleted')
  }
  if (!(await log.deleteThread(threadId))) throw unknownThread(threadId)
}

async function existingThread(log: TurnLog, threadId: string): Promise<ThreadRecord> {
  const record = await log.getThread(threadId)
  if (record === undefined) throw unknownThread(threadId)
  return record
}

function unknownThread(threadId: string): TurnstreamError {
  return new TurnstreamError('THREAD_UNKNOWN', threadId)
}

function changed(
  { threadId, title, metadata }: ThreadRecord,
  changes: z.infer<typeof threadChangesSchema>,
): NewThread {
  const after = { title: title ?? null, metadata: metadata ?? null, ...changes }
  return {
    threadId,
    ...(after.title !== null && { title: after.title }),
    ...(after.metadata !== null && { metadata: after.metadata }),
  }
}

/** What a client may know of a thread's record. */
function toThread({ creation: _creation, ...thread }: ThreadRecord): Thread {
  return thread
}

/** The public part of a turn's record: without its writer, its request and what only the store needs. */
function toTurn(record: TurnRecord): Turn {
  const { owner: _owner, epoch: _epoch, request: _request, responseBytes: _bytes, ...turn } = record
  return turn
}
