import { PROVIDER_IDS } from '../serve/provider-settings.ts'
import type { ProviderChoice } from '../serve/providers.ts'
import { KNOWN_PROVIDERS, providersFrom, settingOf } from '../serve/providers.ts'
import { secretOf } from '../serve/secrets.ts'

/** A provider as it is shown, without its key. */
export interface ShownProvider {
  readonly id: string
  /** Whether it can be asked. */
  readonly active: boolean
  readonly hasKey: boolean
  /** Where the key is looked for. */
  readonly keyVariable?: string
  /** Null: that of the vendor. */
  readonly baseUrl: string | null
  readonly models: readonly string[]
  readonly defaultModel: string | null
}

/** Those that can be asked first, the default one before the others. */
export function shownProviders(choice: ProviderChoice): ShownProvider[] {
  const { configured } = providersFrom(choice)
  const known = PROVIDER_IDS.map((id): ShownProvider => {
    const { keyVariable, models } = KNOWN_PROVIDERS[id]
    const active = configured.find(({ provider }) => provider.id === id)
    const { baseUrl } = settingOf(id, choice)
    return {
      id,
      active: active !== undefined,
      hasKey: secretOf(choice.env, keyVariable) !== undefined,
      keyVariable,
      baseUrl: baseUrl ?? null,
      models: active?.models ?? models,
      defaultModel: active?.defaultModel ?? null,
    }
  })
  const others = configured
    .filter(({ provider }) => !known.some(({ id }) => id === provider.id))
    .map(({ provider, models, defaultModel }): ShownProvider => {
      const { id } = provider
      return { id, active: true, hasKey: false, baseUrl: null, models, defaultModel }
    })
  const order = configured.map(({ provider }) => provider.id)
  const rank = ({ id }: ShownProvider) => (order.includes(id) ? order.indexOf(id) : order.length)
  return [...known, ...others].toSorted((a, b) => rank(a) - rank(b))
}
