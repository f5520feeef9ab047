import { UsageError } from '../command.ts'
import type { Terminal } from '../terminal.ts'

const DEFAULT_URL = 'http://127.0.0.1:4010'

/** Which gateway is meant: `--url`, or TURNSTREAM_URL, or the one on this machine. */
export function gatewayUrl(option: string | undefined, { env }: Pick<Terminal, 'env'>): string {
  const variable = env['TURNSTREAM_URL']?.trim() || undefined
  const url = option ?? variable ?? DEFAULT_URL
  if (/^https?:\/\//.test(url) && URL.canParse(url)) return url
  const origin = option === undefined ? 'TURNSTREAM_URL' : '--url'
  throw new UsageError(`${origin} takes an http:// or https:// address, got '${url}'`)
}
