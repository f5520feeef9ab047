import type { ServerResponse } from 'node:http'
import { onAbort } from '@turnstream/core/internal/async/on-abort'
import type { Context } from 'hono'
import type { GatewayEnv } from './context.ts'
import { once } from './once.ts'

/** Calls back when a response is over, possibly more than once, until the returned function is called. */
export function onResponseClose(response: ServerResponse, onClose: () => void): () => void {
  const { socket } = response.req
  response.on('close', onClose)
  // A pipelined response without a socket yet gets no `close` event when the connection closes.
  if (response.socket === null) {
    // Many listeners are expected here; not a leak.
    socket.setMaxListeners(0)
    socket.on('close', onClose)
    response.on('close', () => socket.off('close', onClose))
  }
  return () => {
    response.off('close', onClose)
    socket.off('close', onClose)
  }
}

/**
 * Calls back once, when a response is over. `isSent`: all of it was handed to the system; the client may lack the end.
 */
export function onSent(response: ServerResponse, callback: (isSent: boolean) => void): void {
  const { socket } = response.req
  let isSent = false
  const end = once(() => {
    release()
    callback(isSent)
  })
  // Node also emits it for data that was lost.
  response.once('finish', () => {
    isSent = !socket.destroyed
  })
  const release = onResponseClose(response, end)
  if (response.destroyed || socket.destroyed) end()
}

type Listener = (...args: unknown[]) => void

const adapterListeners = new WeakMap<ServerResponse, Listener>()

/** Remembers the listener that Hono's adapter adds in `handle`, for `releaseRequest`. */
export function trackAdapter(response: ServerResponse, handle: () => void): void {
  const count = response.listenerCount('close')
  handle()
  const added = response.listeners('close')[count]
  if (added !== undefined) adapterListeners.set(response, added as Listener)
}

/** Releases the request, which Hono's adapter retains until the response closes only to abort its signal. */
export function releaseRequest(response: ServerResponse): void {
  const listener = adapterListeners.get(response)
  if (listener !== undefined) response.off('close', listener)
  adapterListeners.delete(response)
}

/** Returns a signal that aborts when the client disconnects. Call `release` when the response was sent. */
export function watchClient(c: Context<GatewayEnv>) {
  const left = new AbortController()
  const { signal } = left
  const leave = () => left.abort()
  const outgoing = c.env?.outgoing
  if (outgoing === undefined) return { signal, release: onAbort(c.req.raw.signal, leave) }
  const release = onResponseClose(outgoing, leave)
  if (outgoing.destroyed || outgoing.req.socket.destroyed) leave()
  return { signal, release }
}
