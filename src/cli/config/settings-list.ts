import { REDACTED } from '../../protocol/secret-shapes.ts'
import type { ReadSetting, Source } from '../serve/configuration.ts'
import type { Environment } from '../serve/secrets.ts'
import { SETTINGS, type Setting } from '../serve/settings.ts'

/** A setting as it is shown: nothing of it is a secret. */
export interface ShownSetting {
  readonly name: string
  /** As it would be written; null where nobody sets it and it has no default. */
  readonly value: string | number | boolean | readonly string[] | null
  readonly source: Source
  /** The variable, the option or the key of the file; missing for a default. */
  readonly origin?: string
  /** What holds where there is no value. */
  readonly otherwise?: string
}

export function shownSetting({ name, written }: ReadSetting, env: Environment): ShownSetting {
  if (written === undefined) {
    return { name, value: null, source: 'default', otherwise: otherwiseOf(name) }
  }
  const { value, source, origin: named } = written
  const isInFile = source === 'environment' && !env[named]?.trim()
  const origin = isInFile ? `${named}_FILE` : named
  const { isSecret = false }: Setting<unknown> = SETTINGS[name]
  // Of the store only who may use it is a secret, and a directory has none.
  const shown = isSecret && name !== 'store' ? REDACTED : plain(value)
  return { name, value: shown, source, ...(source !== 'default' && { origin }) }
}

function plain(value: unknown): string | number | boolean | readonly string[] {
  if (Array.isArray(value)) return value.map((each) => maskedUrl(String(each)))
  if (typeof value === 'number' || typeof value === 'boolean') return value
  return maskedUrl(String(value))
}

/** Without a user, a password and a query. */
function maskedUrl(text: string): string {
  if (!/^[a-z][\w+.-]*:\/\//i.test(text)) return text
  if (!URL.canParse(text)) return REDACTED
  const { protocol, username, password, host, pathname, search } = new URL(text)
  const who = username === '' && password === '' ? '' : `${REDACTED}@`
  return `${protocol}//${who}${host}${pathname === '/' ? '' : pathname}${search === '' ? '' : `?${REDACTED}`}`
}

/** The sentence about a setting ends with what holds without it, in brackets. */
function otherwiseOf(name: ReadSetting['name']): string {
  const { about }: Setting<unknown> = SETTINGS[name]
  return /\(([^()]*)\)$/.exec(about)?.[1] ?? 'none'
}
