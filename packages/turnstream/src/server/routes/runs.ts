import type { TurnLog, TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import { ResponseReducer } from '@turnstream/core/internal/reducer/reduce'
import { responseSchema } from '@turnstream/core/internal/schemas/response'
import type { Context } from 'hono'
import * as z from 'zod'
import { withTurnIds } from '../../turns/turn-response.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from '../context.ts'
import { encodeList, sendRead } from '../json-response.ts'
import { readStored } from '../openai/stored-responses.ts'
import * as spec from './spec.ts'

const params = z.object({ runId: spec.id })

const runSchema = responseSchema.meta({
  id: 'Response',
  description: 'The accumulated result of a turn: docs/protocol.md',
})

export const cancelBodySchema = spec
  .object({ reason: z.string().min(1).max(1000).exactOptional() })
  .meta({ id: 'Cancel', examples: [{ reason: 'not needed any more' }] })

const cancelledSchema = z
  .object({ cancelled: z.boolean().describe('False if it had already ended') })
  .meta({ id: 'Cancelled' })

const runRoute = spec.route('get', ROUTES.run, {
  summary: 'Retrieve a run as one Response',
  description: 'Contains what was written so far while the run is in progress.',
  tags: ['v2'],
  request: { params },
  responses: { 200: spec.json('The run', runSchema) },
  refusals: spec.TURN_REFUSALS,
})

const cancelRoute = spec.route('post', ROUTES.runCancel, {
  summary: 'Cancel a run',
  description:
    'Works for runs of any process. The run ends as aborted within a second and keeps its output.',
  tags: ['v2'],
  request: { params, body: spec.jsonBody(cancelBodySchema, false) },
  responses: {
    200: spec.json('It had already ended; nothing changed', cancelledSchema),
    202: spec.json('Cancellation was requested', cancelledSchema),
  },
  refusals: ['TURN_UNKNOWN'],
})

export function addRunRoutes(app: GatewayApp, context: GatewayContext): void {
  const runs = new RunReader()

  app.openapi(runRoute, (c) => {
    const { runId } = c.req.valid('param')
    return sendRead(c, context, async (log) =>
      runs.read(log, c.get('space').tenant, await turnOfRun(c, runId)),
    )
  })

  app.openapi(cancelRoute, async (c) => {
    const turn = await turnOfRun(c, c.req.valid('param').runId)
    const { reason } = c.req.valid('json')
    const isStopping = await cancelTurn(c, context, turn, reason)
    return isStopping ? c.json({ cancelled: true }, 202) : c.json({ cancelled: false }, 200)
  })
}

export async function turnOfRun(c: Context<GatewayEnv>, runId: string): Promise<TurnRecord> {
  const turn = await c.get('space').log.getTurnOfRun(runId)
  if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', `the run ${runId}`)
  c.set('turnId', turn.turnId)
  return turn
}

/** Returns whether the turn was still running. */
export async function cancelTurn(
  c: Context<GatewayEnv>,
  { turns }: GatewayContext,
  { turnId, sealed }: TurnRecord,
  reason = 'cancelled by the client',
): Promise<boolean> {
  // The store no longer knows whether an expired turn could be cancelled.
  return !sealed && (await turns.cancel(turnId, reason, c.get('space').tenant))
}

type ResponseJson = Uint8Array<ArrayBuffer>

const MAX_CACHED_BYTES = 32 * 1024 * 1024

interface Reading {
  readonly json: Promise<ResponseJson>
  /** For callers that joined after part of the log was read. */
  next?: Promise<ResponseJson>
}

/** Reads turns as Responses. Concurrent reads of a turn share the work; Responses of sealed turns are cached. */
export class RunReader {
  readonly #maxBytes: number
  /** Least recently read first. */
  readonly #cached = new Map<string, ResponseJson>()
  readonly #readings = new Map<string, Reading>()
  #bytes = 0

  constructor(maxBytes = MAX_CACHED_BYTES) {
    this.#maxBytes = maxBytes
  }

  get cachedBytes(): number {
    return this.#bytes
  }

  /** TURN_EXPIRED. */
  read(log: TurnLog, tenant: string, turn: TurnRecord): Promise<ResponseJson> {
    const { turnId, threadId, ordinal, createdAt, endedAt, epoch } = turn
    if (turn.expired) return Promise.reject(new TurnstreamError('TURN_EXPIRED', turnId))
    // The id of a deleted turn may be reused.
    const key = JSON.stringify([tenant, turnId, threadId, ordinal, createdAt, endedAt, epoch])
    const cached = this.#cached.get(key)
    if (cached === undefined) return this.#readShared(log, key, turn)
    this.#cached.delete(key)
    this.#cached.set(key, cached)
    return Promise.resolve(cached)
  }

  #readShared(log: TurnLog, key: string, turn: TurnRecord): Promise<ResponseJson> {
    const reading = this.#readings.get(key)
    if (reading === undefined) {
      const json = this.#read(log, key, turn).finally(() => this.#readings.delete(key))
      this.#readings.set(key, { json })
      return json
    }
    if (turn.sealed) return reading.json
    const again = () => this.#readShared(log, key, turn)
    reading.next ??= reading.json.then(again, again)
    return reading.next
  }

  async #read(log: TurnLog, key: string, turn: TurnRecord): Promise<ResponseJson> {
    if (!turn.sealed) return encodeRun(log, turn)
    // Turns of earlier versions have no stored Response.
    const stored = await log.getResponse(turn.turnId)
    const json = stored === undefined ? await encodeRun(log, turn) : Buffer.from(stored)
    if (turn.contentMs === undefined) this.#cache(key, json)
    return json
  }

  #cache(key: string, json: ResponseJson): void {
    if (json.byteLength > this.#maxBytes) return
    this.#cached.set(key, json)
    this.#bytes += json.byteLength
    for (const [oldest, { byteLength }] of this.#cached) {
      if (this.#bytes <= this.#maxBytes) return
      this.#cached.delete(oldest)
      this.#bytes -= byteLength
    }
  }
}

async function encodeRun(log: TurnLog, turn: TurnRecord): Promise<ResponseJson> {
  const reducer = new ResponseReducer()
  await readStored(log, turn.turnId, (event) => reducer.apply(event))
  const { output_items: items, ...head } = withTurnIds(reducer.response, turn)
  return Buffer.concat(
    await encodeList(head, 'output_items', items, (item) => JSON.stringify(item)),
  )
}
