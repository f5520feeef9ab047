import { REDACTED } from '@turnstream/core/internal/protocol/redaction'
import { resolveLimits } from '../turns/turn-items.ts'

/** Limits of a tool, or of all tools of an MCP server together, and what must not leave it. */
export interface ToolLimits {
  /** Timeout of a call, including the wait for other calls. Default 30 s. */
  readonly timeoutMs?: number
  /** Largest output. A larger one is a failure. Default 256 KiB. */
  readonly maxOutputBytes?: number
  /** Calls that run at a time. Others wait. Default 16. */
  readonly maxParallelCalls?: number
  /** Values that are removed from outputs and errors. Values of headers are removed without being listed. */
  readonly secrets?: readonly string[]
}

type Limits = Required<Omit<ToolLimits, 'secrets'>>

const DEFAULT_LIMITS: Limits = {
  timeoutMs: 30_000,
  maxOutputBytes: 256 * 1024,
  maxParallelCalls: 16,
}

export function resolveToolLimits(given: ToolLimits): Limits {
  return resolveLimits(DEFAULT_LIMITS, given)
}

/** Models accept these names; other characters of foreign names are replaced. */
export const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/

/** Letters, digits and single separators, so that the prefix of a name is unambiguous. */
export const MCP_NAME = /^(?=.{1,32}$)[a-zA-Z0-9]+(?:[-_][a-zA-Z0-9]+)*$/

// Shorter values are no secrets, and too common to be replaced.
const MIN_SECRET_CHARS = 8

/** Returns a function that removes secrets and values of headers from a text of any length. */
export function hideValues(
  secrets: readonly string[],
  headers: Readonly<Record<string, string>> = {},
): (text: string) => string {
  // A header may hold a scheme before the secret: `Bearer …`.
  const values = Object.values(headers).flatMap((value) => [value, value.split(' ').at(-1) ?? ''])
  const hidden = [...secrets, ...values].filter(({ length }) => length >= MIN_SECRET_CHARS)
  // Longest first: one may be part of another.
  const longestFirst = [...new Set(hidden)].toSorted((a, b) => b.length - a.length)
  return (text) => longestFirst.reduce((rest, value) => rest.replaceAll(value, REDACTED), text)
}
