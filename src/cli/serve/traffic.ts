import type { GatewayOptions } from '../../server/gateway.ts'
import { knownCode } from '../../server/metrics/gateway-metrics.ts'
import type { Journal } from './journal.ts'
import type { Settings } from './settings.ts'

/**
 * A line for each request, and for the beginning and the end of each turn: who, what kind, how long, how it went.
 * Nothing that was asked or answered is in it, and no address: an address may hold a token.
 */
export function trafficOf(
  { logRequests }: Pick<Settings, 'logRequests'>,
  journal: Journal,
): Pick<GatewayOptions, 'onRequest' | 'onTurn'> {
  if (!logRequests) return {}
  return {
    onRequest: (request) => journal.info('request', { ...request }),
    onTurn: (turn, outcome) => {
      if (outcome === undefined) return journal.info('turn started', { ...turn })
      const { status, code, durationMs, usage } = outcome
      journal.info('turn ended', {
        ...turn,
        status,
        ...(code !== undefined && { code: knownCode(code) }),
        durationMs,
        ...(usage && {
          inputTokens: usage.prompt_tokens,
          outputTokens: usage.completion_tokens,
        }),
      })
    },
  }
}
