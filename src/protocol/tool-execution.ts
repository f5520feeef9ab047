/** The mark, in `provider_metadata`, of a call that the provider runs by itself. */
export const EXECUTED_BY_PROVIDER = 'provider'

/** Whether a call needs no answer from the client, because whoever made it also ran it. */
export function isExecutedByProvider(metadata: Record<string, unknown> | undefined): boolean {
  return metadata?.['executed_by'] === EXECUTED_BY_PROVIDER
}
