import {
  forProvider,
  isCompaction,
  withIssuer,
  withoutVendorFields,
} from '@turnstream/core/internal/formats/issuer'
import type { ModelTable } from '@turnstream/core/internal/formats/model-traits'
import type {
  ProviderRequest,
  SettingName,
} from '@turnstream/core/internal/formats/provider-request'
import { CallIdRestorer } from '@turnstream/core/internal/formats/sent-call-ids'
import { fitSettings, withoutSettings } from '@turnstream/core/internal/formats/settings'
import type {
  Vendor,
  VendorOptions,
  VendorRequest,
} from '@turnstream/core/internal/formats/vendor-request'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type { StreamEventPayload } from '@turnstream/core/internal/protocol/stream-event'
import type { RefusedData } from './refused-data.ts'

/** What is sent: items with the vendor data of this provider, except for what the vendor has refused. */
export class CallRequest<Options extends VendorOptions & { id: string; models: ModelTable }> {
  readonly #vendor: Vendor<Options>
  readonly #options: Options
  /** What the provider has refused in any request. */
  readonly #refused: RefusedData
  #request: ProviderRequest
  /** Whether data that was refused is left out. */
  #isReduced = false
  #isRebuilt = false
  #hasLearned = false
  #callIds = new CallIdRestorer()

  constructor(
    vendor: Vendor<Options>,
    request: ProviderRequest,
    options: Options,
    refused: RefusedData,
  ) {
    this.#vendor = vendor
    this.#options = options
    this.#refused = refused
    const { id, maxOutputTokens: limit = Infinity } = options
    const { maxOutputTokens = 0 } = request
    const input = request.input.map((item) => this.#accepted(forProvider(item, id)))
    const isOverLimit = maxOutputTokens > limit
    this.#request = { ...request, input, ...(isOverLimit && { maxOutputTokens: limit }) }
    if (refused.defaultsError !== undefined) this.#dropDefaults(refused.defaultsError)
    if (options.models.hasLearned(request.model)) this.#fitModel()
  }

  #accepted(item: OutputItem): OutputItem {
    if (!this.#refused.has(item)) return item
    this.#isReduced = true
    return withoutVendorFields(item)
  }

  build(): VendorRequest {
    const { buildRequest, rebuildRequest = buildRequest } = this.#vendor
    const build = this.#isReduced ? rebuildRequest : buildRequest
    const built = build(this.#request, this.#options)
    this.#callIds = new CallIdRestorer(built.callIds)
    return built
  }

  /** What the vendor answers, with the call ids of the thread and the provider as issuer of its data. */
  restore(payload: StreamEventPayload): StreamEventPayload {
    return withIssuer(this.#callIds.restore(payload), this.#options.id)
  }

  /** Drops what the error is about, if the request can do without. Returns whether `build` changes. */
  rebuildAfter(error: string): boolean {
    if (this.#dropDefaults(error)) {
      this.#refused.defaultsError = error
      return true
    }
    return this.#learn(error) || this.#dropVendorData(error)
  }

  /** Once: a model that refuses every form would be asked for ever. */
  #learn(error: string): boolean {
    const traits = this.#hasLearned ? undefined : this.#vendor.learn?.(this.#request, error)
    if (traits === undefined) return false
    this.#hasLearned = true
    this.#options.models.learn(this.#request.model, traits)
    this.#fitModel()
    return true
  }

  /** Replaces what the model refuses of its thinking. Whoever asks for more learns it from `unsupported`. */
  #fitModel(): void {
    const table = this.#vendor.settings?.(this.#options, this.#options.models)
    if (table === undefined) return
    const { unsupported, nearest } = fitSettings(table, this.#request)
    const names = unsupported.filter((name) => THINKING.has(name))
    const { reasoningEffort } = nearest
    this.#request = {
      ...withoutSettings(this.#request, names),
      ...(reasoningEffort !== undefined && names.length > 0 && { reasoningEffort }),
    }
  }

  #dropDefaults(error: string): boolean {
    const request = this.#vendor.withoutDefaults?.(this.#request, error)
    this.#request = request ?? this.#request
    return request !== undefined
  }

  #dropVendorData(error: string): boolean {
    if (this.#isRebuilt || this.#vendor.refusal?.test(error) !== true) return false
    const before = JSON.stringify(this.build().body)
    const { input } = this.#request
    this.#isRebuilt = true
    this.#isReduced = true
    const reduced = input.map((item) => (isCompaction(item) ? item : withoutVendorFields(item)))
    this.#request = { ...this.#request, input: reduced }
    if (JSON.stringify(this.build().body) === before) return false
    this.#refused.add(input.filter((item) => !isCompaction(item)))
    return true
  }
}

const THINKING = new Set<SettingName>(['thinkingBudget', 'thinking', 'reasoningEffort'])
