import type { Submission } from '@turnstream/core/internal/formats/submission'
import { optionInvalid, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { nearestNames } from '@turnstream/core/internal/protocol/nearest'
import { CODEX_ID, PROVIDER_KINDS, type Provider, SCRIPTED_ID } from '../providers/provider.ts'
import type { Tool } from './tools.ts'

export interface ConfiguredProvider {
  readonly provider: Provider
  /** Models listed besides the default one. `any`: all, unless the name starts with that of another provider. */
  readonly models?: readonly string[] | 'any'
  /** The model for requests that name none. Always listed. */
  readonly defaultModel: string
  /** Leaves its models out of lists, unless it is the default provider. They are reached as `<id>/<model>`. */
  readonly unlisted?: boolean
  /** Tools of the server that its models call without being offered them. A client's tool takes the place of its namesake. */
  readonly tools?: readonly Tool[]
}

export interface ChosenModel {
  readonly provider: Provider
  readonly model: string
  readonly tools?: readonly Tool[]
}

/** `model` is `<providerId>/<modelId>`, or a model name. */
export type RequestedModel = Pick<Submission, 'model' | 'providerId'>

/** Names before a slash that mean a provider, configured or not. */
const KIND_NAMES: ReadonlySet<string> = new Set([...PROVIDER_KINDS, CODEX_ID, SCRIPTED_ID])

/** A slash would make it look like a model of a provider. */
const ALIAS = /^[^\s/\p{Cc}]{1,200}$/u

const MAX_SUGGESTED = 3
const MAX_LISTED = 12

/** Other names of models, each with a `<providerId>/<modelId>` or a listed model. */
export type ModelAliases = Readonly<Record<string, string>>

/** The providers of a server, the default one first. */
export class Providers {
  readonly #all: readonly ConfiguredProvider[]
  readonly #byId: ReadonlyMap<string, ConfiguredProvider>
  readonly #default: ConfiguredProvider
  #aliases: ReadonlyMap<string, ChosenModel> = new Map()

  /** OPTION_INVALID for an alias that is the name of a model, or whose model is unknown. */
  constructor(configured: readonly ConfiguredProvider[], aliases: ModelAliases = {}) {
    const [first] = configured
    if (first === undefined) throw optionInvalid('no provider is configured')
    this.#default = first
    this.#all = [...configured]
    this.#byId = new Map(configured.map((each) => [each.provider.id, each]))
    if (this.#byId.size < configured.length) throw optionInvalid('two providers have the same id')
    this.#aliases = new Map(
      Object.entries(aliases).map(([alias, model]) => [alias, this.#resolveAlias(alias, model)]),
    )
  }

  #resolveAlias(alias: string, model: string): ChosenModel {
    if (!ALIAS.test(alias)) {
      const shown = JSON.stringify(alias.slice(0, 200))
      throw optionInvalid(`alias ${shown} must have 1 to 200 characters, without spaces or slashes`)
    }
    const owner = this.#all.find((each) => listedModels(each).includes(alias))
    if (owner !== undefined)
      throw optionInvalid(`alias ${alias} is a model of ${owner.provider.id}`)
    const chosen = this.#byName(model)
    if (chosen !== undefined) return chosen
    throw optionInvalid(`alias ${alias} names an unknown model: ${model}${this.#advice(model)}`)
  }

  /** Listed models as `<providerId>/<modelId>`, each provider's default model first. */
  get models(): string[] {
    return fullNames(this.#listed)
  }

  /** Like `models`, including those of unlisted providers. */
  get allModels(): string[] {
    return fullNames(this.#all)
  }

  /** Aliases with the `<providerId>/<modelId>` of each. */
  get aliases(): { readonly alias: string; readonly model: string }[] {
    return Array.from(this.#aliases, ([alias, { provider, model }]) => {
      return { alias, model: `${provider.id}/${model}` }
    })
  }

  /**
   * Chooses the provider and model of a request. A prompt never goes to a provider that the caller did not
   * mean. In order: `providerId`; the part before the slash of `<id>/<model>`; the provider that lists the
   * model; an alias; a provider with `any`, unless the part before the slash means another provider. Otherwise
   * MODEL_UNKNOWN.
   */
  choose({ model, providerId }: RequestedModel): ChosenModel {
    if (providerId !== undefined) return this.#byProviderId(providerId, model)
    if (model === undefined || model === '') return toChosen(this.#default)
    const chosen = this.#byName(model) ?? this.#aliases.get(model)
    return chosen ?? toChosen(this.#takerOfAny(model), model)
  }

  #byName(model: string): ChosenModel | undefined {
    const slash = model.indexOf('/')
    const named = slash > 0 ? this.#byId.get(model.slice(0, slash)) : undefined
    if (named !== undefined) return toChosen(named, model.slice(slash + 1))
    const owner = this.#listed.find((each) => listedModels(each).includes(model))
    return owner && toChosen(owner, model)
  }

  get all(): Provider[] {
    return this.#all.map(({ provider }) => provider)
  }

  get #listed(): ConfiguredProvider[] {
    return this.#all.filter((each) => each === this.#default || each.unlisted !== true)
  }

  #takerOfAny(model: string): ConfiguredProvider {
    const [prefix = ''] = model.toLowerCase().split('/', 1)
    const isConfigured = this.#byId.has(prefix)
    const isNamed = isConfigured || KIND_NAMES.has(prefix)
    const taker = isNamed ? undefined : this.#all.find(({ models }) => models === 'any')
    if (taker !== undefined) return taker
    if (isNamed && !isConfigured && model.includes('/')) throw this.#unknownProvider(prefix)
    throw new TurnstreamError('MODEL_UNKNOWN', `${model}${this.#advice(model)}`)
  }

  #byProviderId(providerId: string, model: string | undefined): ChosenModel {
    const owner = this.#byId.get(providerId)
    if (owner === undefined) throw this.#unknownProvider(providerId)
    const alias = this.#aliases.get(model ?? '')
    if (alias?.provider.id === providerId) return alias
    const prefix = `${providerId}/`
    return toChosen(owner, model?.startsWith(prefix) ? model.slice(prefix.length) : model)
  }

  #unknownProvider(id: string): TurnstreamError {
    const available = [...this.#byId.keys()].join(', ')
    const detail = `provider ${id} is not configured; available: ${available}`
    return new TurnstreamError('MODEL_UNKNOWN', detail)
  }

  /** Compare the name both with and without its provider. */
  #advice(model: string): string {
    const names = new Map<string, string>()
    for (const full of this.allModels) {
      const bare = full.slice(full.indexOf('/') + 1)
      names.set(full, full)
      if (!names.has(bare)) names.set(bare, full)
    }
    for (const alias of this.#aliases.keys()) names.set(alias, alias)
    const near = nearestNames(model, [...names.keys()], 2 * MAX_SUGGESTED)
    const meant = [...new Set(near.map((name) => names.get(name) ?? name))].slice(0, MAX_SUGGESTED)
    if (meant.length > 0) return `; did you mean ${meant.join(', ')}?`
    const listed = this.models
    return listed.length > MAX_LISTED ? '' : `; available: ${listed.join(', ')}`
  }
}

export function listedModels({ models = [], defaultModel }: ConfiguredProvider): string[] {
  return [...new Set([defaultModel, ...(models === 'any' ? [] : models)])]
}

function fullNames(configured: readonly ConfiguredProvider[]): string[] {
  return configured.flatMap((each) =>
    listedModels(each).map((model) => `${each.provider.id}/${model}`),
  )
}

function toChosen(configured: ConfiguredProvider, model = ''): ChosenModel {
  const { provider, defaultModel, tools } = configured
  return { provider, model: model === '' ? defaultModel : model, ...(tools && { tools }) }
}
