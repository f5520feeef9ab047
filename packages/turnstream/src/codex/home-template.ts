import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { writeDurably } from './durable-file.ts'

/** Files of codex's own sessions, and those by which another API or key than the configured one could be found. */
const NOT_COPIED = /^(?:config\.toml|catalog\.json|auth\.json|\.env|history\.jsonl|.*\.sqlite.*)$/
const MAX_BYTES = 1024 * 1024

/** Copies the files of a template into a new home. */
export function copyTemplate(template: string, home: string): void {
  for (const name of filesOf(template)) {
    const from = join(template, name)
    if (statSync(from).size <= MAX_BYTES) writeDurably(join(home, name), readFileSync(from))
  }
}

function filesOf(template: string): string[] {
  try {
    return readdirSync(template, { withFileTypes: true })
      .filter((entry) => entry.isFile() && !NOT_COPIED.test(entry.name))
      .map(({ name }) => name)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new TurnstreamError(
      'OPTION_INVALID',
      `the template of CODEX_HOME is unreadable: ${reason}`,
    )
  }
}
