import { tooLarge } from '@turnstream/core/internal/formats/translation'
import { isExecutedByProvider } from '@turnstream/core/internal/items/marks'
import type { Settlement, UnsettledItems } from '@turnstream/core/internal/items/unsettled-items'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { isPlainDelta } from '@turnstream/core/internal/protocol/event-codec'
import { withoutUndefined } from '@turnstream/core/internal/protocol/json'
import type { FunctionCall, OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type {
  ErrorObject,
  ItemType,
  StreamEventPayload,
  Usage,
} from '@turnstream/core/internal/protocol/stream-event'
import {
  type LenientOptions,
  normalizePayload,
  payloadFault,
  type StartedItem,
} from '@turnstream/core/internal/protocol/stream-event-guard'
import type { ApprovalDecision, TurnApprovals } from './approvals.ts'
import type { ApprovalRequestItem, ProviderApprovals } from './provider-approvals.ts'
import { markedAsRunHere } from './tools.ts'
import { boundEnd, boundError, extraChars } from './turn-ending.ts'
import { type TurnCaps, type TurnItem, TurnItems } from './turn-items.ts'

export type RoundEnd = StreamEventPayload<
  'response_done' | 'response_error' | 'turn_aborted_by_user'
>

export interface TranscriptOptions {
  readonly runId: string
  readonly registry: ReadonlySet<string>
  readonly caps: TurnCaps
  /** Maximum characters of one call's arguments. Most providers enforce it themselves. */
  readonly maxArgumentChars: number
  readonly approvals: TurnApprovals
  readonly providerApprovals: ProviderApprovals
  readonly unsettled: UnsettledItems
  /** Called for ignored events, once per item. */
  readonly onError: (error: unknown) => void
}

export interface ToolAnswer {
  readonly output: string
  readonly success: boolean
}

type RarePayload = Exclude<StreamEventPayload, { type: 'item_delta' }>

// Ids come from outside, and a broken provider must not fill the operator's log.
const MAX_REPORTS = 100

const TRUNCATED: ErrorObject = {
  code: 'UPSTREAM_TRUNCATED',
  message: 'The provider stream ended early',
}

/** The rounds of the provider as one response, with consecutive items, summed usage and caps. Synchronous. */
export class Transcript {
  readonly usage = new TurnUsage()
  readonly #options: TranscriptOptions
  readonly #unsettled: UnsettledItems
  readonly items: TurnItems
  /** Items of the round's calls that this server runs. */
  readonly #callsRunHere = new Set<string>()
  /** Items of the provider's calls for which approval was requested. */
  readonly #requested = new Set<string>()
  /** Ids of ignored events that were reported. */
  readonly #ignored = new Set<string>()
  readonly #lenient: LenientOptions = {
    started: (providersId) => this.#started(providersId),
    onUsageDropped: () => this.#reportUsage(),
  }
  #isUsageReported = false
  #end: RoundEnd | undefined

  constructor(options: TranscriptOptions) {
    this.#options = options
    this.#unsettled = options.unsettled
    this.items = new TurnItems(options.runId, options.caps)
  }

  get end(): RoundEnd | undefined {
    return this.#end
  }

  /** Returns the ids that the provider's items get in this round. Items with other ids are renamed. */
  beginRound(): () => string {
    this.#callsRunHere.clear()
    this.#end = undefined
    return this.items.beginRound()
  }

  /** Converts a provider payload for the log; undefined when it is not logged. */
  apply(payload: StreamEventPayload): StreamEventPayload | undefined {
    if (payload.type === 'item_delta' && typeof payload.delta_content === 'string') {
      return this.#grow(payload)
    }
    const normalized = normalizePayload(payload, this.#lenient)
    const fault = payloadFault(normalized)
    if (fault === undefined) return this.#applyRare(normalized as RarePayload)
    this.failRound({ code: 'UPSTREAM_MALFORMED', message: `malformed provider event: ${fault}` })
    return undefined
  }

  #applyRare(payload: RarePayload): StreamEventPayload | undefined {
    switch (payload.type) {
      case 'item_start':
        return this.#start(payload)
      case 'item_done':
        if (payload.final_item.type === 'approval_response') return undefined
        if (payload.final_item.type === 'approval_request') {
          return this.#requestApproval(payload.final_item)
        }
        return this.#finish(payload)
      case 'item_error':
      case 'item_cancelled':
        return this.#abandon(payload)
      case 'usage_update':
        if (payload.usage === undefined) return undefined
        this.usage.update(payload.usage)
        return this.items.spend(JSON.stringify(payload.usage).length) ? this.usageNews() : undefined
      case 'response_done':
      case 'response_error':
      case 'turn_aborted_by_user':
        this.#endWith(payload)
        return undefined
      case 'response_start':
      case 'heartbeat':
        return undefined
      default:
        return ignore(payload)
    }
  }

  #started(providersId: string): StartedItem | undefined {
    const item = this.items.known(providersId)
    if (item?.type === undefined) return undefined
    return this.#unsettled.soFar(item.id) ?? { type: item.type }
  }

  #reportUsage(): void {
    if (this.#isUsageReported) return
    this.#isUsageReported = true
    this.#reportMalformed('malformed usage was dropped')
  }

  #reportMalformed(detail: string): void {
    this.#options.onError(new TurnstreamError('UPSTREAM_MALFORMED', detail))
  }

  #grow(payload: StreamEventPayload<'item_delta'>): StreamEventPayload | undefined {
    const item = this.items.known(payload.item_id)
    const open = item && this.#unsettled.find(item.id)
    if (item === undefined || open === undefined) return this.#ignore(payload.item_id)
    const { length } = payload.delta_content
    const { length: before } = open.text
    // Nothing to emit, and a provider could send these forever.
    if (length === 0) return undefined
    if (this.#isTooLarge(item.type, before + length)) return this.#failCall(item)
    if (!this.items.grow(before, length)) return undefined
    if (!isPlainDelta(payload) && !this.items.spend(extraChars(payload))) return undefined
    return payload.item_id === item.id ? payload : { ...payload, item_id: item.id }
  }

  /** The item was never started or has ended. */
  #ignore(providersId: string): undefined {
    if (this.#ignored.has(providersId) || this.#ignored.size >= MAX_REPORTS) return
    this.#ignored.add(providersId)
    const error = new TurnstreamError('ITEM_UNKNOWN', `${providersId.slice(0, 200)} is not open`)
    this.#options.onError(error)
  }

  #start(payload: StreamEventPayload<'item_start'>): StreamEventPayload | undefined {
    const item = this.items.add(payload.item_id, payload.item_type)
    const text = payload.initial_content ?? payload.arguments ?? ''
    if (item === undefined) return undefined
    if (this.#isTooLarge(item.type, text.length)) return this.#failCall(item, payload.name)
    if (!this.items.spend(extraChars(payload)) || !this.items.grow(0, text.length)) {
      return undefined
    }
    const { item_type, name, provider_metadata: metadata } = payload
    const started = { ...payload, item_id: item.id }
    return item_type === 'function_call' && this.#runs(name, metadata)
      ? { ...started, provider_metadata: markedAsRunHere(metadata) }
      : started
  }

  #finish(payload: StreamEventPayload<'item_done'>): StreamEventPayload | undefined {
    const known = this.items.known(payload.item_id)
    const open = known && this.#unsettled.find(known.id)
    if (known !== undefined && open === undefined) return this.#ignore(payload.item_id)
    const item = known ?? this.items.add(payload.item_id)
    if (item === undefined) return undefined
    const final = withoutApproval({ ...payload.final_item, id: item.id })
    if (final.type === 'function_call' && this.#isTooLarge(final.type, final.arguments.length)) {
      return this.#failCall(item, final.name)
    }
    const { provider_metadata: metadata } = final
    const isRunHere = final.type === 'function_call' && this.#runs(final.name, metadata)
    const approval = isRunHere ? this.#options.approvals.request(final, item.place + 1) : undefined
    const stored = approval === undefined ? final : { ...final, approval }
    if (!this.items.spend(extraChars({ ...payload, final_item: stored }))) return undefined
    if (!this.items.finish(item, final, open?.text.length)) return undefined
    if (!isRunHere) return { ...payload, item_id: item.id, final_item: final }
    this.#callsRunHere.add(item.id)
    const final_item = { ...stored, provider_metadata: markedAsRunHere(metadata) }
    return { ...payload, item_id: item.id, final_item }
  }

  #isTooLarge(type: ItemType | undefined, chars: number): boolean {
    return type === 'function_call' && chars > this.#options.maxArgumentChars
  }

  /** Ends a call whose arguments are too large, before they are stored. */
  #failCall(item: TurnItem, finalName?: string): StreamEventPayload {
    const started = this.#unsettled.soFar(item.id)
    const name = finalName ?? (started?.type === 'function_call' ? started.name : '')
    const error = boundError(tooLarge(name || item.id, this.#options.maxArgumentChars))
    return { type: 'item_error', item_id: item.id, error }
  }

  #runs(name: string | undefined, metadata: Record<string, unknown> | undefined): boolean {
    const { registry } = this.#options
    return name !== undefined && registry.has(name) && !isExecutedByProvider(metadata)
  }

  /** The round's unanswered calls for this server's tools. */
  get callsForServer(): FunctionCall[] {
    return this.#unsettled.calls.filter(({ id }) => this.#callsRunHere.has(id))
  }

  /** Whether the client has to answer calls. */
  get hasCallsForClient(): boolean {
    return this.#unsettled.calls.some((call) => !isExecutedByProvider(call.provider_metadata))
  }

  /** Requests approval once per call that the provider runs. Undefined if none is requested. */
  #requestApproval(providers: ApprovalRequestItem): StreamEventPayload | undefined {
    const { type, call_id } = providers
    const { providerApprovals } = this.#options
    const call = this.#unsettled.runningCall(call_id)
    const item = call === undefined || this.#requested.has(call) ? undefined : this.items.add()
    const request = item && providerApprovals.request(providers, item.place + 1)
    if (call === undefined || item === undefined || request === undefined) {
      providerApprovals.decline(providers.approval_id)
      return undefined
    }
    this.#requested.add(call)
    const final_item: OutputItem = { type, id: item.id, approval_id: request.id, call_id }
    if (!this.items.spend(JSON.stringify(final_item).length)) return undefined
    return { type: 'item_done', item_id: item.id, final_item }
  }

  #abandon(
    payload: StreamEventPayload<'item_error' | 'item_cancelled'>,
  ): StreamEventPayload | undefined {
    const known = this.items.known(payload.item_id)
    // A finished call may still fail to run.
    if (known !== undefined && !this.#unsettled.has(known.id)) return this.#ignore(payload.item_id)
    const item = known ?? this.items.add(payload.item_id)
    if (item === undefined || !this.items.spend(extraChars(payload))) return undefined
    return { ...payload, item_id: item.id }
  }

  /** The provider failed. The first end of a round wins. */
  failRound(error: ErrorObject): void {
    const { runId } = this.#options
    this.#end ??= { type: 'response_error', response_id: runId, error: boundError(error) }
  }

  #endWith(payload: RoundEnd): void {
    const { end, isCut } = boundEnd(payload)
    this.#end = end
    if (isCut) this.#reportMalformed(`${payload.type} was too large`)
  }

  /** Ends a round, even if the provider sent no terminal event. */
  *endRound(): Generator<StreamEventPayload> {
    this.failRound(TRUNCATED)
    const end = this.#end
    yield* this.#unsettled.settleOpen(settlementOf(end))
    if (end?.type === 'response_done' && end.usage !== undefined) this.usage.update(end.usage)
    const news = this.usageNews()
    this.usage.endRound()
    if (news !== undefined) yield news
  }

  /** Yields the result of a call as an item, unless it exceeds a cap. */
  *answer(call: FunctionCall, { output, success }: ToolAnswer): Generator<StreamEventPayload> {
    const item = this.items.add()
    if (item === undefined) return
    const { call_id } = call
    const type = 'function_call_output'
    const final: OutputItem = { type, id: item.id, call_id, output, success }
    if (!this.items.finish(item, final)) return
    const provider_metadata = markedAsRunHere(undefined)
    yield { type: 'item_start', item_id: item.id, item_type: type, call_id, provider_metadata }
    yield { type: 'item_done', item_id: item.id, final_item: { ...final, provider_metadata } }
  }

  /** Yields the answer to an approval as an item, unless it exceeds a cap. Providers are not sent it. */
  *answerApproval(
    call_id: string,
    approval_id: string,
    { approved, reason, by, at }: ApprovalDecision,
  ): Generator<StreamEventPayload> {
    const item = this.items.add()
    if (item === undefined) return
    const final_item: OutputItem = {
      type: 'approval_response',
      id: item.id,
      approval_id,
      call_id,
      approved,
      ...withoutUndefined({ reason, answered_by: by }),
      answered_at: at,
    }
    if (!this.items.spend(JSON.stringify(final_item).length)) return
    yield { type: 'item_done', item_id: item.id, final_item }
  }

  /** The usage so far, if it is not in the log yet. */
  usageNews(): StreamEventPayload | undefined {
    const usage = this.usage.drainNews()
    return usage && { type: 'usage_update', response_id: this.#options.runId, usage }
  }
}

/** Only this server requests approval. */
function withoutApproval(item: OutputItem): OutputItem {
  if (item.type !== 'function_call' || item.approval === undefined) return item
  const { approval: _, ...call } = item
  return call
}

/** Returns how to settle the open items when a round has ended. */
export function settlementOf(end: RoundEnd | undefined): Settlement {
  switch (end?.type) {
    case 'turn_aborted_by_user':
      return { kind: 'cancelled', reason: end.reason ?? '' }
    case 'response_error':
      return { kind: 'failed', error: end.error }
    default:
      return { kind: 'done', finishReason: end?.finish_reason ?? null }
  }
}

/** Does not compile when one of our types is missing; types of later versions are ignored. */
function ignore(_payload: never): undefined {
  return undefined
}

const OPTIONAL_COUNTS = ['cached_tokens', 'cache_write_tokens', 'reasoning_tokens'] as const

/** Token usage of a turn. Within a round the newest figures count; rounds are added up. */
export class TurnUsage {
  #before: Usage | undefined
  #round: Usage | undefined
  /** The last sum that `drainNews` returned, as JSON. */
  #drained: string | undefined

  update(usage: Usage): void {
    this.#round = usage
  }

  endRound(): void {
    this.#before = this.sum
    this.#round = undefined
  }

  /** Undefined when no provider reported usage. */
  get sum(): Usage | undefined {
    if (this.#before === undefined || this.#round === undefined) return this.#round ?? this.#before
    return addUsage(this.#before, this.#round)
  }

  /** Returns the sum if it is known and has changed since the last call. */
  drainNews(): Usage | undefined {
    const { sum } = this
    const text = JSON.stringify(sum)
    if (sum === undefined || text === this.#drained) return undefined
    this.#drained = text
    return sum
  }
}

function addUsage(one: Usage, other: Usage): Usage {
  const sum: Usage = {
    prompt_tokens: one.prompt_tokens + other.prompt_tokens,
    completion_tokens: one.completion_tokens + other.completion_tokens,
    total_tokens: one.total_tokens + other.total_tokens,
  }
  for (const name of OPTIONAL_COUNTS) {
    if (name in one || name in other) sum[name] = (one[name] ?? 0) + (other[name] ?? 0)
  }
  if (one.estimated === true || other.estimated === true) sum.estimated = true
  return sum
}
