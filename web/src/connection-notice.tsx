import type { ConnectionState } from '../../src/client.ts'

/** The state of the connection. Empty while it is healthy. */
export function ConnectionNotice(props: { connection: ConnectionState; onRetry: () => void }) {
  const { status, cause } = props.connection
  const isTroubled = status === 'reconnecting' || status === 'failed'
  return (
    <p class="connection" role="status">
      {status === 'connecting' && <span class="dot busy">Connecting</span>}
      {status === 'live' && <span class="dot live">Live</span>}
      {status === 'ended' && <span class="dot">Deleted</span>}
      {isTroubled && (
        <>
          <span class="dot lost">
            {status === 'failed' ? adviceOf(cause?.code) : 'Reconnecting'}
          </span>
          <button type="button" class="quiet" onClick={props.onRetry} title={cause?.message}>
            Try now
          </button>
        </>
      )}
    </p>
  )
}

function adviceOf(code: string | undefined): string {
  if (code === 'THREAD_UNKNOWN') return 'This conversation does not exist'
  if (code === 'KEY_REQUIRED' || code === 'KEY_INVALID') return 'A key is needed'
  return 'Not connected'
}
