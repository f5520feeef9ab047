import type { ConfiguredTraits, ModelTable, ModelTraits, TraitRows } from './model-traits.ts'
import type { ProviderRequest } from './provider-request.ts'
import type { VendorSettings } from './settings.ts'
import type { Translation, TranslationContext } from './translation.ts'
import type { Ownership, VendorRequest } from './vendor-request.ts'

/** Where a vendor's API is, and what its models take. */
export interface VendorOptions {
  /** Provider id of its responses. */
  id?: string
  baseUrl?: string
  apiKey?: string
  headers?: Record<string, string>
  /** Output tokens that its models allow. A request for more gets these. */
  maxOutputTokens?: number
  /** What its models take, where their names do not tell. */
  modelTraits?: ConfiguredTraits
}

/** An API that is called over HTTP and responds with a stream. */
export interface Vendor<Options extends VendorOptions> {
  /** Id of its providers by default. */
  readonly id: string
  /** How it recognizes its own items, if it tells its responses apart. */
  readonly ownership?: (providerId: string) => Ownership
  /** How its models differ. */
  readonly models?: TraitRows
  /** What its requests may hold. */
  readonly settings?: (options: Options, models: ModelTable) => VendorSettings
  readonly buildRequest: (
    request: ProviderRequest,
    options: Options & { models?: ModelTable },
  ) => VendorRequest
  readonly createTranslation: (context: TranslationContext) => Translation
  /** Matches the errors by which it refuses signatures and encrypted reasoning. */
  readonly refusal?: RegExp
  /** What an error says about the model of the request, so that it can be asked in another form. */
  readonly learn?: (request: ProviderRequest, error: string) => Partial<ModelTraits> | undefined
  /** The request to send after an error about a setting that nobody asked for, without that setting. */
  readonly withoutDefaults?: (
    request: ProviderRequest,
    error: string,
  ) => ProviderRequest | undefined
  /** Builds the request after a refusal, from items without vendor data. Default `buildRequest`. */
  readonly rebuildRequest?: Vendor<Options>['buildRequest']
}
