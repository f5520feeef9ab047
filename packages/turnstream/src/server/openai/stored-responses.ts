import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import { customInput } from '@turnstream/core/internal/formats/custom-tools'
import { ParameterError } from '@turnstream/core/internal/formats/openai-errors'
import { withoutPrefix } from '@turnstream/core/internal/formats/responses/request-items'
import { type NamedTool, namedTools } from '@turnstream/core/internal/formats/responses/tool-names'
import type { HistoryItem } from '@turnstream/core/internal/formats/submission'
import type { EventRecord, TurnLog, TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { isTurnMissing, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { shortCallId } from '@turnstream/core/internal/protocol/ids'
import { isGivenItem, runOfWireId, wireItemId } from '@turnstream/core/internal/protocol/item-ids'
import { isRecord } from '@turnstream/core/internal/protocol/json'
import type { Attachment, OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type { ResponseItem } from '@turnstream/core/internal/protocol/response'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import type { Context } from 'hono'
import { START } from '../../log/offsets.ts'
import {
  readStoredItems,
  reducePass,
  type StoredItems,
  threadHistory,
} from '../../turns/thread-history.ts'
import { withoutMark } from '../../turns/tools.ts'
import type { GatewayEnv } from '../context.ts'

/** Of all stored responses that a request refers to. */
const MAX_CONTEXT_BYTES = 8 * 1024 * 1024

/** Of different responses in one request: each is a read of the store. */
const MAX_REFERENCED_RUNS = 200

/** The prefixes of turn ids in vendors' APIs. */
type Prefix = 'resp_' | 'msg_'

/** Undefined for an id that is none of ours. */
async function findTurn(log: TurnLog, prefix: Prefix, id: string): Promise<TurnRecord | undefined> {
  const turnId = id.startsWith(prefix) ? id.slice(prefix.length) : ''
  return turnId === '' ? undefined : log.getTurn(turnId)
}

/** A turn by its id in a vendor's API. TURN_UNKNOWN. */
export async function turnByWireId(
  c: Context<GatewayEnv>,
  prefix: Prefix,
  id: string,
): Promise<TurnRecord> {
  const turn = await findTurn(c.get('space').log, prefix, id)
  if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', id.slice(0, 200))
  c.set('turnId', turn.turnId)
  return turn
}

/** The same, with its logs. TURN_EXPIRED. */
export async function readableTurn(...args: Parameters<typeof turnByWireId>): Promise<TurnRecord> {
  const turn = await turnByWireId(...args)
  if (turn.expired) throw new TurnstreamError('TURN_EXPIRED', turn.turnId)
  return turn
}

/** A response, and what it and everything before it say: the context of the next one. Throws ParameterError. */
export async function readPrevious(
  log: TurnLog,
  responseId: string,
): Promise<{ turn: TurnRecord; items: HistoryItem[] }> {
  const turn = await findTurn(log, 'resp_', responseId)
  const context = turn && (await readContext(log, turn, MAX_CONTEXT_BYTES))
  if (turn === undefined || context === undefined) {
    const why = `response ${responseId.slice(0, 200)} was not found`
    throw new ParameterError('previous_response_id', why, 'previous_response_not_found')
  }
  const { items: input, bytes, isStart, instructions } = context
  const items = withoutInstructions(input, instructions)
  if (isStart) return { turn, items: items.flatMap(toHistory) }
  // The turn was started through another API. The oldest turns before it are left out if they are too long.
  const { threadId, turnId } = turn
  const room = { bytes: MAX_CONTEXT_BYTES - bytes, tokens: Infinity }
  const { signal } = new AbortController()
  const before = await threadHistory({ log, threadId, turnId, input, room, signal })
  return { turn, items: [...before.items, ...items].flatMap(toHistory) }
}

/** Instructions apply to one response only. They are its first item. */
function withoutInstructions<Item extends OutputItem>(
  items: readonly Item[],
  instructions: unknown,
): readonly Item[] {
  const [first] = items
  const isFirst =
    first?.type === 'message' && first.origin === 'system' && first.content === instructions
  return isFirst ? items.slice(1) : items
}

/** Finds the items of earlier responses that a request names by id. */
export async function referencedItems(
  log: TurnLog,
  input: unknown,
): Promise<Map<string, HistoryItem>> {
  const found = new Map<string, HistoryItem>()
  const ids = new Set(Array.isArray(input) ? input.flatMap(referenceOf) : [])
  const runs = new Set([...ids].map(runOfWireId))
  if (runs.size > MAX_REFERENCED_RUNS) {
    throw new ParameterError('input', `refers to more than ${MAX_REFERENCED_RUNS} responses`)
  }
  let room = MAX_CONTEXT_BYTES
  for (const runId of runs) {
    const turn = runId === '' ? undefined : await log.getTurnOfRun(runId)
    if (turn === undefined) continue
    const { items = [], bytes = 0 } = (await readContext(log, turn, room)) ?? {}
    room -= bytes
    for (const item of items) {
      const [history] = toHistory(item)
      if (history !== undefined) found.set(wireItemId(item.id), history)
    }
  }
  return found
}

function referenceOf(item: unknown): string[] {
  if (!isRecord(item) || item['type'] !== 'item_reference') return []
  return typeof item['id'] === 'string' ? [withoutPrefix(item['id'].slice(0, 300))] : []
}

interface StoredContext extends StoredItems {
  readonly instructions: unknown
}

/** Undefined if the turn has expired or was deleted, also while it is read. */
async function readContext(
  log: TurnLog,
  turn: TurnRecord,
  room: number,
): Promise<StoredContext | undefined> {
  const { signal } = new AbortController()
  try {
    const stored = await (turn.status === 'in_progress'
      ? readItemsSoFar(log, turn.turnId, room)
      : readStoredItems(log, turn, room, signal))
    if (stored === undefined) {
      throw new ParameterError('input', `refers to more than ${MAX_CONTEXT_BYTES} bytes`)
    }
    // Last: its failure also shows that the items were not read in full.
    const { payload } = (await firstEvent(log, turn.turnId)) ?? {}
    const parameters = payload?.type === 'response_start' ? payload.parameters : undefined
    return { ...stored, instructions: parameters?.['instructions'] }
  } catch (error) {
    if (isTurnMissing(error)) return undefined
    throw error
  }
}

/** The items of a running turn. Of those that have not ended, only texts can be used. Undefined beyond `maxBytes`. */
async function readItemsSoFar(
  log: TurnLog,
  turnId: string,
  maxBytes: number,
): Promise<StoredItems | undefined> {
  const stored = await reducePass(eventsSoFar(log, turnId), maxBytes)
  const items = stored?.items.filter(
    (item) => !stored.unfinished.has(item.id) || (item.type === 'message' && item.content !== ''),
  )
  return stored && { ...stored, items: items ?? [] }
}

/** Calls `apply` with the valid events that are stored now. */
export async function readStored(
  log: TurnLog,
  turnId: string,
  apply: (event: StreamEvent) => unknown,
): Promise<void> {
  for await (const { event } of eventsSoFar(log, turnId)) if (isStreamEvent(event)) apply(event)
}

/** The events that are stored now. */
export async function* eventsSoFar(
  log: TurnLog,
  turnId: string,
): AsyncGenerator<EventRecord, void> {
  const stop = new AbortController()
  try {
    const tail = log.tail(turnId, 'events', START, stop.signal)
    void tail.caughtUp.then(() => stop.abort())
    for await (const record of tail) {
      if (isSliceOver()) await nextSlice()
      if ('event' in record) yield record
    }
  } finally {
    stop.abort()
  }
}

/** Waits for the first event of a turn, which is durable. Undefined if there is none. */
export async function firstEvent(log: TurnLog, turnId: string): Promise<StreamEvent | undefined> {
  const reading = new AbortController()
  try {
    for await (const record of log.tail(turnId, 'events', START, reading.signal)) {
      if ('event' in record) return record.event
    }
    return undefined
  } finally {
    reading.abort()
  }
}

/** Leaves out what failed, what was withdrawn, and approvals. */
function toHistory(stored: ResponseItem): HistoryItem[] {
  if (stored.cancelled !== undefined) return []
  const item = withoutMark(stored)
  const metadata = item.provider_metadata
  const given = metadata === undefined ? {} : { provider_metadata: metadata }
  switch (item.type) {
    case 'message': {
      const { type, origin, content, attachments } = item
      if (origin === 'agent') return [{ type, origin, content, ...given }]
      return [{ type, origin, content, ...(attachments !== undefined && { attachments }) }]
    }
    case 'reasoning':
      return [{ type: item.type, content: item.content, ...given }]
    case 'function_call': {
      const { type, name, arguments: args } = item
      const call_id = shortCallId(item.call_id)
      return item.error === undefined ? [{ type, call_id, name, arguments: args, ...given }] : []
    }
    case 'function_call_output': {
      const { type, output, success } = item
      return [{ type, call_id: shortCallId(item.call_id), output, success, ...given }]
    }
    default:
      return []
  }
}

/** An item of the input, as OpenAI lists it. */
export type InputItem = Record<string, unknown> & { readonly id: string; readonly type: string }

/** The input of a response without its instructions, oldest first. It precedes everything else in the log. */
export async function readInputItems(log: TurnLog, turn: TurnRecord): Promise<InputItem[]> {
  const { runId, turnId } = turn
  const items: OutputItem[] = []
  let parameters: Record<string, unknown> = {}
  for await (const { event } of eventsSoFar(log, turnId)) {
    const { payload } = event
    if (payload.type === 'response_start') parameters = payload.parameters ?? {}
    else if (!('item_id' in payload) || !isGivenItem(runId, payload.item_id)) break
    else if (payload.type === 'item_done') items.push(payload.final_item)
  }
  const { instructions, tools } = parameters
  const names = namedTools(Array.isArray(tools) ? tools : [])
  const byName = new Map(names.map((tool) => [tool.flatName, tool]))
  return withoutInstructions(items, instructions).flatMap((item) => toInputItem(item, byName))
}

function toInputItem(item: OutputItem, tools: ReadonlyMap<string, NamedTool>): InputItem[] {
  const id = wireItemId(item.id)
  const status = 'completed'
  switch (item.type) {
    case 'message': {
      const role = ROLES[item.origin]
      const type = role === 'assistant' ? 'output_text' : 'input_text'
      const texts = item.content === '' ? [] : [{ type, text: item.content }]
      const content = [...texts, ...(item.attachments ?? []).map(attachmentPart)]
      return [{ id: `msg_${id}`, type: 'message', status, role, content }]
    }
    case 'reasoning': {
      const summary = item.content === '' ? [] : [{ type: 'summary_text', text: item.content }]
      return [{ id: `rs_${id}`, type: 'reasoning', summary }]
    }
    case 'function_call': {
      const tool = tools.get(item.name)
      const { name, namespace } = tool ?? { name: item.name, namespace: undefined }
      const call = { call_id: item.call_id, name, ...(namespace !== undefined && { namespace }) }
      if (!tool?.isCustom) {
        return [{ id: `fc_${id}`, type: item.type, status, ...call, arguments: item.arguments }]
      }
      const input = customInput(item.arguments)
      return [{ id: `ctc_${id}`, type: 'custom_tool_call', ...call, input }]
    }
    case 'function_call_output': {
      const { type, call_id, output } = item
      return [{ id: `fco_${id}`, type, status, call_id, output }]
    }
    default:
      return []
  }
}

const ROLES = { user: 'user', agent: 'assistant', system: 'system' } as const

function attachmentPart({ type, media_type, data, filename = 'file' }: Attachment) {
  const url = `data:${media_type};base64,${data}`
  if (type === 'image') return { type: 'input_image', image_url: url, detail: 'auto' }
  return { type: 'input_file', filename, file_data: url }
}

export interface ItemPage {
  readonly limit: number
  readonly order: 'asc' | 'desc'
  readonly after?: string
}

export function pageOf(items: readonly InputItem[], { limit, order, after }: ItemPage) {
  const ordered = order === 'asc' ? items : items.toReversed()
  const start = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1
  if (after !== undefined && start === 0) {
    throw new ParameterError('after', `item ${after.slice(0, 200)} was not found`)
  }
  const data = ordered.slice(start, start + limit)
  return {
    object: 'list' as const,
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + limit < ordered.length,
  }
}
