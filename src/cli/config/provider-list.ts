import type { ProviderChoice } from '../serve/providers.ts'
import { KNOWN_PROVIDERS, keyOf, providerPlans, providersFrom } from '../serve/providers.ts'

/** A provider as it is shown, without its key. */
export interface ShownProvider {
  readonly id: string
  readonly kind: string
  /** Whether it can be asked. */
  readonly active: boolean
  readonly hasKey: boolean
  /** Where the key is looked for. */
  readonly keyVariable?: string
  /** Null: that of the vendor. */
  readonly baseUrl: string | null
  readonly models: readonly string[] | 'any'
  readonly defaultModel: string | null
}

/** Those that can be asked first, the default one before the others. */
export function shownProviders(choice: ProviderChoice): ShownProvider[] {
  const { configured } = providersFrom(choice)
  const known = providerPlans(choice).map((plan): ShownProvider => {
    const { id, kind, keyVariable, setting } = plan
    const active = configured.find(({ provider }) => provider.id === id)
    return {
      id,
      kind,
      active: active !== undefined,
      hasKey: keyOf(plan, choice.env) !== undefined,
      ...(keyVariable !== undefined && { keyVariable }),
      baseUrl: setting.baseUrl ?? null,
      models: active?.models ?? setting.models ?? KNOWN_PROVIDERS[kind].models,
      defaultModel: active?.defaultModel ?? null,
    }
  })
  const others = configured
    .filter(({ provider }) => !known.some(({ id }) => id === provider.id))
    .map(({ provider, models = [], defaultModel }): ShownProvider => {
      const { id } = provider
      return { id, kind: id, active: true, hasKey: false, baseUrl: null, models, defaultModel }
    })
  const order = configured.map(({ provider }) => provider.id)
  const rank = ({ id }: ShownProvider) => (order.includes(id) ? order.indexOf(id) : order.length)
  return [...known, ...others].toSorted((a, b) => rank(a) - rank(b))
}
