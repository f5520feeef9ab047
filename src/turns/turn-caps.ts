import { TurnstreamError } from '../protocol/errors.ts'

/** What a turn may come to before it is stopped. */
export interface TurnCaps {
  /** 10 million unless given. */
  readonly maxTextChars: number
  /** 2,000 unless given. */
  readonly maxItems: number
  /** 30 minutes unless given. */
  readonly maxDurationMs: number
  /** 32 unless given. */
  readonly maxRounds: number
  /** The most that a provider is sent of the thread, input included: 8 MiB of JSON unless given. */
  readonly maxHistoryBytes: number
  /** The same in estimated tokens: 2 million unless given. */
  readonly maxHistoryTokens: number
}

const DEFAULT_CAPS: TurnCaps = {
  maxTextChars: 10_000_000,
  maxItems: 2000,
  maxDurationMs: 30 * 60 * 1000,
  maxRounds: 32,
  maxHistoryBytes: 8 * 1024 * 1024,
  maxHistoryTokens: 2_000_000,
}

/** Fills in the defaults; OPTION_INVALID for a cap under which no turn could run. */
export function resolveCaps(given: Partial<TurnCaps> = {}): TurnCaps {
  const caps = { ...DEFAULT_CAPS, ...given }
  for (const [name, value] of Object.entries(caps)) {
    if (!(value >= 1)) {
      throw new TurnstreamError('OPTION_INVALID', `${name} must be at least 1, not ${value}`)
    }
  }
  return caps
}
