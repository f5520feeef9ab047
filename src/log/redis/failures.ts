import { TurnstreamError } from '../../protocol/errors.ts'

/*
 * What the client and the server say when something is wrong. The server begins an error with a word in
 * capitals; anything else is of the connection.
 */

// They pass when a server has started, a failover is over or slots have moved.
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

export type Failure = 'passing' | 'noscript' | 'final'

export function failureOf(error: unknown): Failure {
  const word = wordOf(error)
  if (word === undefined || PASSING.has(word)) return 'passing'
  return word === 'NOSCRIPT' ? 'noscript' : 'final'
}

/** The error for the caller. Messages name hosts and users; what the server quotes of a command is left out. */
export function storeError(error: unknown): TurnstreamError {
  if (error instanceof TurnstreamError) return error
  const word = wordOf(error)
  const said = withoutQuotes(error instanceof Error ? error.message || error.name : String(error))
  const cause = { cause: error }
  if (word === 'OOM') return new TurnstreamError('STORE_FULL', said, cause)
  if (word === undefined || PASSING.has(word) || REFUSED.has(word)) {
    return new TurnstreamError('STORE_UNAVAILABLE', said, cause)
  }
  return new TurnstreamError('STORE_FAILED', said, cause)
}

/** `ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' …` quotes the password. */
function withoutQuotes(message: string): string {
  return message.replaceAll(/(['"`]).*?\1/gs, '…')
}

function wordOf(error: unknown): string | undefined {
  // The name of the class differs between kinds of replies, their base class does not.
  if (!(error instanceof Error) || !isReply(error)) return undefined
  return /^[A-Z]+/.exec(error.message)?.[0] ?? 'ERR'
}

/** Not by `instanceof`: the client is loaded only when a log is opened. */
function isReply(error: Error): boolean {
  const names = ['ErrorReply', 'SimpleError', 'BlobError', 'MultiErrorReply']
  return names.includes(error.constructor.name)
}
