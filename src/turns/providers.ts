import type { Provider } from '../adapters/provider.ts'
import { TurnstreamError } from '../protocol/errors.ts'

export interface ConfiguredProvider {
  readonly provider: Provider
  /** The models it is known to have. It is asked for others as well, if they are named with it. */
  readonly models: readonly string[]
  /** The model of a request that names none. */
  readonly defaultModel: string
}

export interface ChosenModel {
  readonly provider: Provider
  readonly model: string
}

export interface ModelWish {
  /** `<providerId>/<modelId>`, or a model alone. */
  readonly model?: string
  readonly providerId?: string
}

/** The providers of a server, the default one first. */
export class Providers {
  readonly #byId: ReadonlyMap<string, ConfiguredProvider>
  readonly #default: ConfiguredProvider

  constructor(configured: readonly ConfiguredProvider[]) {
    const [first] = configured
    if (first === undefined) throw new TurnstreamError('OPTION_INVALID', 'there is no provider')
    this.#default = first
    this.#byId = new Map(configured.map((each) => [each.provider.id, each]))
    if (this.#byId.size < configured.length) {
      throw new TurnstreamError('OPTION_INVALID', 'two providers have the same id')
    }
  }

  /** As `<providerId>/<modelId>`, the default model of each provider first. */
  get models(): string[] {
    return [...this.#byId.values()].flatMap(({ provider, models, defaultModel }) =>
      [...new Set([defaultModel, ...models])].map((model) => `${provider.id}/${model}`),
    )
  }

  /**
   * Who is asked, and for what. A model that begins with the id of a provider and a slash is that
   * provider's; a bare one belongs to whoever lists it, or else to the default provider. MODEL_UNKNOWN
   * for a provider that is not there.
   */
  choose({ model, providerId }: ModelWish): ChosenModel {
    if (providerId !== undefined) return this.#ofProvider(providerId, model)
    if (model === undefined) return chosen(this.#default)
    const slash = model.indexOf('/')
    const owner = slash > 0 ? this.#byId.get(model.slice(0, slash)) : undefined
    if (owner !== undefined) return chosen(owner, model.slice(slash + 1))
    const lister = [...this.#byId.values()].find(({ models }) => models.includes(model))
    return chosen(lister ?? this.#default, model)
  }

  #ofProvider(providerId: string, model: string | undefined): ChosenModel {
    const owner = this.#byId.get(providerId)
    if (owner === undefined) {
      const known = [...this.#byId.keys()].join(', ')
      const detail = `there is no provider ${providerId}; there are: ${known}`
      throw new TurnstreamError('MODEL_UNKNOWN', detail)
    }
    const prefix = `${providerId}/`
    return chosen(owner, model?.startsWith(prefix) ? model.slice(prefix.length) : model)
  }
}

function chosen({ provider, defaultModel }: ConfiguredProvider, model?: string): ChosenModel {
  return { provider, model: model === undefined || model === '' ? defaultModel : model }
}
