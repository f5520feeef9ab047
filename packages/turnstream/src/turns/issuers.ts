import { createHash } from 'node:crypto'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { isRecord } from '@turnstream/core/internal/protocol/json'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import { retainedMs } from '../log/keyed-records.ts'

// Clients of vendors' APIs send signatures and encrypted reasoning back without the provider. Notes map hashes to it.

/** Of one read of the store. */
const KEYS_PER_READ = 64
/** Looked up per request. Older data is sent unchanged. */
const MAX_LOOKUPS = 1024

export class IssuerNotes {
  readonly #log: TurnLog
  readonly #onError: (error: unknown) => void
  #pending: Promise<unknown> | undefined

  constructor(log: TurnLog, onError: (error: unknown) => void) {
    this.#log = log
    this.#onError = onError
  }

  /** Does not wait for the store. */
  add(item: OutputItem): void {
    const issuer = item.provider_metadata?.['issuer']
    if (typeof issuer !== 'string') return
    for (const key of keysOf(item)) {
      this.#pending = Promise.all([this.#pending, this.#note(key, issuer)])
    }
  }

  /** Without the note the vendor decides, so a failure is no reason to stop the turn. */
  async #note(key: string, issuer: string): Promise<void> {
    try {
      await this.#log.keyedRecords.add(key, issuer, retainedMs(this.#log))
    } catch (error) {
      this.#onError(error)
    }
  }

  /** Resolves when everything is stored, or has failed and was reported. */
  async settle(): Promise<void> {
    await this.#pending
  }
}

/** Names the issuers in items from a client, as far as they are known. */
export async function nameIssuers(
  log: TurnLog,
  items: readonly OutputItem[],
): Promise<OutputItem[]> {
  const keys = [...new Set(items.filter(isAnonymous).flatMap(keysOf))].slice(-MAX_LOOKUPS)
  if (keys.length === 0) return [...items]
  const reads: Promise<(string | undefined)[]>[] = []
  for (let at = 0; at < keys.length; at += KEYS_PER_READ) {
    reads.push(log.keyedRecords.read(keys.slice(at, at + KEYS_PER_READ)))
  }
  const notes = (await Promise.all(reads)).flat()
  const issuers = new Map(keys.map((key, index) => [key, notes[index]]))
  return items.map((item) => {
    const key = isAnonymous(item) ? keysOf(item).find((each) => issuers.get(each)) : undefined
    if (key === undefined) return item
    return { ...item, provider_metadata: { ...item.provider_metadata, issuer: issuers.get(key) } }
  })
}

function isAnonymous({ provider_metadata: metadata }: OutputItem): boolean {
  return metadata !== undefined && metadata['issuer'] === undefined
}

function keysOf({ provider_metadata: metadata = {} }: OutputItem): string[] {
  const { openai, anthropic } = metadata
  const block = isRecord(anthropic) ? anthropic['block'] : undefined
  return [
    isRecord(openai) ? openai['encrypted_content'] : undefined,
    isRecord(anthropic) ? anthropic['signature'] : undefined,
    isRecord(block) ? block['data'] : undefined,
  ]
    .filter((data) => typeof data === 'string' && data !== '')
    .map((data) => `issuer:${createHash('sha256').update(String(data)).digest('hex')}`)
}
