import { readFileSync, renameSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { parseJsonObject } from '@turnstream/core/internal/protocol/json'
import { writeDurably } from './durable-file.ts'

const FILE = 'auth.json'
const MAX_BYTES = 1024 * 1024

interface Login {
  readonly text: string
  readonly mtimeMs: number
}

/** Copies the newest login of some directories: codex renews it in the home of the process that needs it. */
export function copyLogin(from: readonly string[], to: string): void {
  const newest = from.map(readLogin).reduce(newer, undefined)
  if (newest !== undefined) writeLogin(newest, join(to, FILE))
}

export function keepLogin(from: string, to: string): void {
  const own = readLogin(from)
  const kept = readLogin(to)
  if (own === undefined || newer(kept, own) === kept) return
  const temporary = join(to, `${FILE}.new`)
  writeLogin(own, temporary)
  renameSync(temporary, join(to, FILE))
}

/** A login that codex is just writing is not JSON yet: then the one before counts. */
function readLogin(directory: string): Login | undefined {
  const file = join(directory, FILE)
  const { size = 0, mtimeMs = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {}
  if (size === 0 || size > MAX_BYTES) return undefined
  const text = readFileSync(file, 'utf8')
  return parseJsonObject(text) === undefined ? undefined : { text, mtimeMs }
}

function newer(first: Login | undefined, second: Login | undefined): Login | undefined {
  return (second?.mtimeMs ?? 0) > (first?.mtimeMs ?? 0) ? second : first
}

function writeLogin({ text, mtimeMs }: Login, file: string): void {
  writeDurably(file, text)
  utimesSync(file, mtimeMs / 1000, mtimeMs / 1000)
}
