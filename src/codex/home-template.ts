import { chmodSync, copyFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { TurnstreamError } from '../protocol/errors.ts'

/** Files that are written at each start, or that belong to other sessions. */
const NOT_COPIED = /^(?:config\.toml|catalog\.json|history\.jsonl|.*\.sqlite.*)$/
const MAX_BYTES = 1024 * 1024

/**
 * Copies the files of a template that the home lacks or has in an older version, such as the `auth.json` of a login.
 * codex renews a login in place, so an older file must not replace it.
 */
export function copyTemplate(template: string, home: string): void {
  for (const name of filesOf(template)) {
    const from = join(template, name)
    const to = join(home, name)
    const { size, mtimeMs } = statSync(from)
    const copy = statSync(to, { throwIfNoEntry: false })
    if (size > MAX_BYTES || (copy !== undefined && copy.mtimeMs >= mtimeMs)) continue
    copyFileSync(from, to)
    chmodSync(to, 0o600)
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
