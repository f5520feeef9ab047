import type { Context } from 'hono'
import { onAbort } from '../../log/on-abort.ts'
import type { GatewayEnv } from '../context.ts'

/** Whether the client of a request is still there. */
export interface ClientWatch {
  /** Aborts when it leaves before it has its answer. */
  readonly signal: AbortSignal
  /** It has its answer. */
  readonly release: () => void
}

export function watchClient(c: Context<GatewayEnv>): ClientWatch {
  const left = new AbortController()
  const leave = () => left.abort()
  const outgoing = c.env?.outgoing
  if (outgoing === undefined) {
    const forget = onAbort(c.req.raw.signal, leave)
    return { signal: left.signal, release: forget }
  }
  const { socket } = outgoing.req
  outgoing.on('close', leave)
  if (outgoing.socket === null) {
    // An answer whose turn has not come on its connection is not told that the connection is gone. There may be
    // many of them, and that is no leak.
    socket.setMaxListeners(0)
    socket.on('close', leave)
  }
  if (outgoing.destroyed || socket.destroyed) leave()
  return {
    signal: left.signal,
    release: () => {
      outgoing.off('close', leave)
      socket.off('close', leave)
    },
  }
}
