import { readFileSync } from 'node:fs'
import { fileFault, UsageError } from '../command.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** An environment variable, or the content of the file that `<name>_FILE` names. An empty variable counts as unset. */
export function readSecret(env: Environment, name: string): string | undefined {
  const value = env[name]?.trim() || undefined
  const file = env[`${name}_FILE`]?.trim() || undefined
  if (file === undefined) return value
  if (value !== undefined) throw new UsageError(`${name} and ${name}_FILE are both set: keep one`)
  let content: string
  try {
    content = readFileSync(file, 'utf8').trim()
  } catch (error) {
    throw new UsageError(`${name}_FILE cannot be read: ${fileFault(error, file)}`)
  }
  if (content === '') throw new UsageError(`${name}_FILE names an empty file: ${file}`)
  return content
}
