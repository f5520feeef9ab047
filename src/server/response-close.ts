import type { ServerResponse } from 'node:http'

/**
 * Calls back when a response was sent or its client has left, possibly more than once. With pipelined requests, a
 * response that has no socket yet is not told that the connection is gone.
 */
export function onResponseClose(response: ServerResponse, onClose: () => void): void {
  response.on('close', onClose)
  if (response.socket !== null) return
  const { socket } = response.req
  // There may be many of them, and that is no leak.
  socket.setMaxListeners(0)
  socket.on('close', onClose)
  response.on('close', () => socket.off('close', onClose))
}
