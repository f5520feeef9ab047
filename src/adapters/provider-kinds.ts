/** The vendor APIs that a provider can be configured to speak. */
export const PROVIDER_KINDS = ['openai', 'anthropic', 'gemini', 'openai-compatible'] as const
export type ProviderKind = (typeof PROVIDER_KINDS)[number]

/** The id of the provider that plays recorded turns. `serve` always has it. */
export const SCRIPTED_ID = 'scripted'
