import type { ConnectionState } from '../../packages/client/src/index.ts'
import { isAboutKey, sentenceFor } from './causes.ts'
import { NextTry } from './trouble.tsx'

/** The state of the connection. */
export function ConnectionNotice(props: { connection: ConnectionState; onRetry: () => void }) {
  const { status, cause, retryAt } = props.connection
  const isFailed = status === 'failed'
  const isWaiting = status === 'reconnecting' || (status === 'connecting' && cause !== undefined)
  return (
    <div class={isFailed || isWaiting ? 'connection lost' : 'connection'}>
      <p role="status">
        {status === 'connecting' && !isWaiting && <span class="dot busy">Connecting</span>}
        {status === 'live' && <span class="dot live">Live</span>}
        {status === 'ended' && <span class="dot">Deleted</span>}
        {(isFailed || isWaiting) && (
          <span class="dot lost">{cause ? sentenceFor(cause) : 'Not connected.'}</span>
        )}
      </p>
      {isWaiting && <NextTry at={retryAt} />}
      {(isFailed || isWaiting) && (cause?.retryAfterMs ?? 0) === 0 && (
        <button type="button" class="quiet" onClick={props.onRetry}>
          {cause && isAboutKey(cause) ? 'Enter a key' : isWaiting ? 'Try now' : 'Try again'}
        </button>
      )}
    </div>
  )
}
