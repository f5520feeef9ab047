import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { EpochStart } from '../offsets.ts'
import { corrupt, type HeadState } from '../rules.ts'

/* Parses replies of the server and converts its errors. */

const STATE = /^(\d{1,15}):(\d{1,15})(?:@[\da-f]+)?(!?)$/

export function parseState(text: string): HeadState {
  const [, epoch, head, mark] = STATE.exec(text) ?? []
  if (epoch === undefined || head === undefined) throw corrupt(`invalid log state: ${text}`)
  return { epoch: Number(epoch), head: Number(head), sealed: mark === '!' }
}

/** `1:1,2:301`: epoch 1 from record 1 on, epoch 2 from record 301 on. */
export function parseEpochs(text: unknown): EpochStart[] {
  if (typeof text !== 'string') throw corrupt('the epochs of a log are missing')
  return text.split(',').map((part) => {
    const [epoch, from] = part.split(':').map(Number)
    if (epoch === undefined || from === undefined || !Number.isSafeInteger(epoch + from)) {
      throw corrupt(`invalid log epoch: ${part}`)
    }
    return { epoch, from }
  })
}

export interface Entry {
  readonly epoch: number
  readonly seq: number
  readonly id: string
  readonly fields: Readonly<Record<string, string>>
}

export function parseEntries(reply: unknown): Entry[] {
  return list(reply).map((each) => {
    const [id, fields] = list(each)
    const [epoch, seq] = text(id).split('-').map(Number)
    if (epoch === undefined || seq === undefined) throw corrupt('an entry has no id')
    return { epoch, seq, id: text(id), fields: parseFields(fields) }
  })
}

export function parseFields(reply: unknown): Record<string, string> {
  // Field names come from the store: `__proto__` must be an ordinary name.
  const fields: Record<string, string> = Object.create(null)
  const flat = list(reply)
  for (let at = 0; at < flat.length; at += 2) fields[text(flat[at])] = text(flat[at + 1])
  return fields
}

/** The pairs of a flat list. */
export function pairs(reply: unknown): [unknown, unknown][] {
  const found: [unknown, unknown][] = []
  const flat = list(reply)
  for (let at = 0; at < flat.length; at += 2) found.push([flat[at], flat[at + 1]])
  return found
}

export function list(reply: unknown): unknown[] {
  if (Array.isArray(reply)) return reply
  throw corrupt('expected a list')
}

export function text(reply: unknown): string {
  if (typeof reply === 'string') return reply
  if (typeof reply === 'number') return String(reply)
  throw corrupt('expected a string')
}

export function texts(reply: unknown): string[] {
  return list(reply).map(text)
}

export interface Scored {
  readonly member: string
  readonly score: number
}

/** Members with scores: pairs in RESP3, a flat list in RESP2. */
export function scored(reply: unknown): Scored[] {
  return pairs(list(reply).flat()).map(([member, score]) => {
    return { member: text(member), score: Number(score) }
  })
}

/** The result, or `other` if what it is read from is damaged. */
export async function unlessDamaged<T, Other>(result: Promise<T>, other: Other) {
  try {
    return await result
  } catch (error) {
    if (!hasCode(error, 'STORE_CORRUPT')) throw error
    return other
  }
}

/* Server errors begin with a word in capitals; all others are connection errors. */

// Temporary: server startup, failover, or slot migration.
const PASSING = new Set([
  'ASK',
  'BUSY',
  'CLUSTERDOWN',
  'LOADING',
  'MASTERDOWN',
  'MOVED',
  'NOREPLICAS',
  'READONLY',
  'TRYAGAIN',
  'UNBLOCKED',
])

const REFUSED = new Set(['DENIED', 'NOAUTH', 'NOPERM', 'WRONGPASS'])

/** The client's classes of server errors. */
const ERROR_REPLIES = new Set(['ErrorReply', 'SimpleError', 'BlobError', 'MultiErrorReply'])

export type Failure = 'passing' | 'noscript' | 'final'

export function failureOf(error: unknown): Failure {
  const word = wordOf(error)
  if (word === undefined || PASSING.has(word)) return 'passing'
  return word === 'NOSCRIPT' ? 'noscript' : 'final'
}

/** The error for the caller. Messages name hosts and users; quoted command arguments are removed. */
export function storeError(error: unknown): TurnstreamError {
  if (error instanceof TurnstreamError) return error
  const word = wordOf(error)
  const detail = withoutQuotes(error instanceof Error ? error.message || error.name : String(error))
  const cause = { cause: error }
  if (word === 'OOM') return new TurnstreamError('STORE_FULL', detail, cause)
  if (word === 'WRONGTYPE') return corrupt(detail, cause)
  if (word === undefined || PASSING.has(word) || REFUSED.has(word)) {
    return new TurnstreamError('STORE_UNAVAILABLE', detail, cause)
  }
  return new TurnstreamError('STORE_FAILED', detail, cause)
}

/** `ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' …` quotes the password. */
function withoutQuotes(message: string): string {
  return message.replaceAll(/(['"`]).*?\1/gs, '…')
}

function wordOf(error: unknown): string | undefined {
  // Not by `instanceof`: the client is loaded only when a log is opened.
  if (!(error instanceof Error) || !ERROR_REPLIES.has(error.constructor.name)) return undefined
  return /^[A-Z]+/.exec(error.message)?.[0] ?? 'ERR'
}
