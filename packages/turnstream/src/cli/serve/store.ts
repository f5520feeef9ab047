import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Clock } from '@turnstream/core/internal/async/clock'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import type { ErrorCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { makeDirectory } from '../../log/embedded/directory.ts'
import { openDamagedLog, openEmbeddedLog } from '../../log/embedded/open.ts'
import { MemoryLog } from '../../log/memory-log.ts'
import { openRedisLog } from '../../log/redis/open.ts'
import { UsageError } from '../command.ts'
import type { Settings } from './settings.ts'

export type StoreChoice =
  | { readonly kind: 'memory' }
  | { readonly kind: 'embedded'; readonly directory: string }
  | { readonly kind: 'redis'; readonly url: string; readonly prefix: string }

export interface StoreOptions extends Pick<Settings, 'retentionMs' | 'storeTimeoutMs'> {
  readonly clock: Clock
  readonly onError: (error: unknown) => void
  /** Called if the lists of an embedded store are damaged. Without it, the store is not opened. */
  readonly onDamage?: ((error: TurnstreamError) => void) | undefined
}

/** The server cannot start. The message says why. */
export class StartError extends Error {
  override readonly name = 'StartError'
}

export function parseStore(
  { store, storePrefix }: Pick<Settings, 'store' | 'storePrefix'>,
  cwd: string,
): StoreChoice {
  if (store === 'memory') return { kind: 'memory' }
  if (!/^rediss?:\/\//i.test(store)) return { kind: 'embedded', directory: resolve(cwd, store) }
  checkRedis(new URL(store))
  return { kind: 'redis', url: store, prefix: storePrefix }
}

/** The URL is not printed: it may contain a password. */
function checkRedis({ username, password, pathname }: URL): void {
  try {
    decodeURIComponent(`${username}:${password}`)
  } catch {
    const advice = 'contains an invalid % escape: write % as %25'
    throw new UsageError(`user or password in the store URL ${advice}`)
  }
  if (/^(?:\/\d*)?$/.test(pathname)) return
  const example = 'redis://localhost:6379/0'
  throw new UsageError(`the path of the store URL must be a database number, as in ${example}`)
}

export async function openStore(choice: StoreChoice, options: StoreOptions): Promise<TurnLog> {
  const { retentionMs, storeTimeoutMs: silentAfterMs, clock, onError, onDamage } = options
  const common = { clock, ...(retentionMs !== undefined && { retentionMs }) }
  if (choice.kind === 'memory') return new MemoryLog(common)
  if (choice.kind === 'redis') {
    const { url, prefix } = choice
    return openRedisLog({ ...common, silentAfterMs, onError, url, prefix })
  }
  const { directory } = choice
  if (await makeDirectory(directory)) {
    // Keeps a new directory out of git: it will contain prompts. If this fails, opening reports it.
    await writeFile(join(directory, '.gitignore'), '*\n', { flag: 'wx' }).catch(() => {})
  }
  const embedded = { ...common, onError, directory }
  return onDamage === undefined ? openEmbeddedLog(embedded) : openDamagedLog(embedded, onDamage)
}

export function publicUrl(url: string): string {
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${pathname === '/' ? '' : pathname}`
}

/** The passwords in a URL, encoded and decoded. */
export function storeSecrets(choice: StoreChoice): string[] {
  if (choice.kind !== 'redis') return []
  const { password } = new URL(choice.url)
  return password === '' ? [] : [password, decodeURIComponent(password), choice.url]
}

export function describeStore(choice: StoreChoice): string {
  if (choice.kind === 'memory') return 'memory (turns are lost when this process ends)'
  if (choice.kind === 'embedded') return `embedded in ${choice.directory}`
  return `Redis at ${publicUrl(choice.url)}`
}

const ADVICE: Partial<Record<ErrorCode, string>> = {
  STORE_LOCKED: 'Stop it, choose another directory with --store, or use Redis for both.',
  STORE_READ_ONLY: 'Choose a directory that this user can write with --store.',
  STORE_UNAVAILABLE: 'Start it, or choose another store with --store.',
  STORE_FULL: 'Free space, or choose another store with --store.',
  STORE_FAILED: 'Choose another store with --store.',
}

/** Why the store could not be opened, and what to do about it. */
export function storeFault(choice: StoreChoice, error: TurnstreamError): string {
  const where = choice.kind === 'redis' ? ` (${describeStore(choice)})` : ''
  const advice = ADVICE[error.code]
  return `${error.message}${where}${advice === undefined ? '' : `. ${advice}`} (${error.code})`
}
