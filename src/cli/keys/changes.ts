import { type KeyEntry, type KeyName, linesOfKeysFile } from '../../server/auth/key-ring.ts'

/** It cannot be done; the message says why. */
export class KeysError extends Error {
  override readonly name = 'KeysError'
}

/** The text of a file of keys with one more. What else is in it stays as it is. */
export function withKey(text: string, { tenant, name, sha256 }: KeyEntry): string {
  if (linesOfKeysFile(text).some(({ key }) => isSame(key, { tenant, name }))) {
    throw new KeysError(
      `${tenant} has a key named ${name} already: choose another name, or revoke it first`,
    )
  }
  const before = text === '' || text.endsWith('\n') ? text : `${text}\n`
  return `${before}${tenant}:${name}:${sha256}\n`
}

/** The text without a key. */
export function withoutKey(text: string, { tenant, name }: KeyName): string {
  const lines = linesOfKeysFile(text)
  const left = lines.filter(({ key }) => !isSame(key, { tenant, name }))
  if (left.length === lines.length) throw new KeysError(`${tenant} has no key named ${name}`)
  return left.map((line) => line.text).join('\n')
}

function isSame(key: KeyName | undefined, { tenant, name }: KeyName): boolean {
  return key?.tenant === tenant && key.name === name
}
