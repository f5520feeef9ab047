import type { OutputItem } from '../protocol/output-item.ts'
import type { HttpProviderOptions } from './http-provider.ts'
import { forProvider, isCompaction, withoutVendorFields } from './issuer.ts'
import type { ProviderRequest } from './provider.ts'
import type { RefusedData } from './refused-data.ts'
import type { VendorSettings } from './settings.ts'
import type { Translation, TranslationContext } from './translation.ts'
import type { VendorRequest } from './vendor-request.ts'

/** An API that is called over HTTP and responds with a stream. */
export interface Vendor<Options extends HttpProviderOptions> {
  /** Id of its providers by default. */
  readonly id: string
  /** What its requests may hold. */
  readonly settings?: (options: Options) => VendorSettings
  readonly buildRequest: (request: ProviderRequest, options: Options) => VendorRequest
  readonly createTranslation: (context: TranslationContext) => Translation
  /** Matches the errors by which it refuses signatures and encrypted reasoning. */
  readonly refusal?: RegExp
  /** The request to send after an error about a setting that nobody asked for, without that setting. */
  readonly withoutDefaults?: (
    request: ProviderRequest,
    error: string,
  ) => ProviderRequest | undefined
  /** Builds the request after a refusal, from items without vendor data. Default `buildRequest`. */
  readonly rebuildRequest?: (request: ProviderRequest, options: Options) => VendorRequest
}

/** What is sent: items with the vendor data of this provider, except for what the vendor has refused. */
export class CallRequest<Options extends HttpProviderOptions & { id: string }> {
  readonly #vendor: Vendor<Options>
  readonly #options: Options
  /** What the provider has refused in any request. */
  readonly #refused: RefusedData
  #request: ProviderRequest
  /** Whether data that was refused is left out. */
  #isReduced = false
  #isRebuilt = false

  constructor(
    vendor: Vendor<Options>,
    request: ProviderRequest,
    options: Options,
    refused: RefusedData,
  ) {
    this.#vendor = vendor
    this.#options = options
    this.#refused = refused
    this.#request = limited(
      mapInput(request, (item) => this.#accepted(forProvider(item, options.id))),
      options.maxOutputTokens,
    )
    if (refused.defaultsError !== undefined) this.#dropDefaults(refused.defaultsError)
  }

  #accepted(item: OutputItem): OutputItem {
    if (!this.#refused.has(item)) return item
    this.#isReduced = true
    return withoutVendorFields(item)
  }

  build(): VendorRequest {
    const { buildRequest, rebuildRequest = buildRequest } = this.#vendor
    const build = this.#isReduced ? rebuildRequest : buildRequest
    return build(this.#request, this.#options)
  }

  /** Drops what the error is about, if the request can do without. Returns whether `build` changes. */
  rebuildAfter(error: string): boolean {
    if (!this.#dropDefaults(error)) return this.#dropVendorData(error)
    this.#refused.defaultsError = error
    return true
  }

  #dropDefaults(error: string): boolean {
    const request = this.#vendor.withoutDefaults?.(this.#request, error)
    this.#request = request ?? this.#request
    return request !== undefined
  }

  /** Once. */
  #dropVendorData(error: string): boolean {
    if (this.#isRebuilt || this.#vendor.refusal?.test(error) !== true) return false
    const before = JSON.stringify(this.build().body)
    const { input } = this.#request
    this.#isRebuilt = true
    this.#isReduced = true
    this.#request = mapInput(this.#request, (item) =>
      isCompaction(item) ? item : withoutVendorFields(item),
    )
    if (JSON.stringify(this.build().body) === before) return false
    this.#refused.add(input.filter((item) => !isCompaction(item)))
    return true
  }
}

function limited(request: ProviderRequest, limit = Infinity): ProviderRequest {
  const { maxOutputTokens = 0 } = request
  return maxOutputTokens > limit ? { ...request, maxOutputTokens: limit } : request
}

function mapInput(
  request: ProviderRequest,
  change: (item: OutputItem) => OutputItem,
): ProviderRequest {
  return { ...request, input: request.input.map(change) }
}
