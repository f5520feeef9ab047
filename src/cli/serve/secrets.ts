import { readFileSync } from 'node:fs'
import { UsageError } from '../command.ts'
import { fileFault } from '../file-fault.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** An environment variable, or what stands in the file that `<name>_FILE` names. Empty is not there. */
export function secretOf(env: Environment, name: string): string | undefined {
  const value = env[name]?.trim() || undefined
  const file = env[`${name}_FILE`]?.trim() || undefined
  if (file === undefined) return value
  if (value !== undefined) throw new UsageError(`${name} and ${name}_FILE are both set: keep one`)
  return contentOf(file, name)
}

function contentOf(file: string, name: string): string {
  let content: string
  try {
    content = readFileSync(file, 'utf8').trim()
  } catch (error) {
    throw new UsageError(`${name}_FILE cannot be read: ${fileFault(error, file)}`)
  }
  if (content === '') throw new UsageError(`${name}_FILE names an empty file: ${file}`)
  return content
}

/** Without what it quotes, which may be anything: from the first mark to the last, since there may be some between. */
export function withoutQuotes(text: string): string {
  return text.replace(/["'`].*["'`]/s, '…')
}
