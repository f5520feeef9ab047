// Sends requests to a local port, many at a time, until its parent disconnects. Sends `on` after the first
// responses. A process of its own, so that its CPU time is not counted as the server's.
import { connect } from 'node:net'

/**
 * @typedef {object} Flood
 * @property {number} port
 * @property {string[]} requests
 * @property {{ request: number, isRead: boolean }[]} plan Which to send, and whether to read the response.
 * @property {number} [parallel] How many at a time.
 */

const PARALLEL = 60
const MAX_UNREAD = 20
const FIRST_RESPONSES = 20

/** Streams of threads never end. */
const MAX_SILENCE_MS = 3000

/** @type {import('node:net').Socket[]} */
const unread = []
let sent = 0
let responses = 0

/** @param {Flood} flood */
async function sendOn({ port, requests, plan }) {
  for (;;) {
    const { request = 0, isRead = true } = plan[sent++ % plan.length] ?? {}
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(requests[request] ?? '')
    if (isRead) {
      socket.setTimeout(MAX_SILENCE_MS, () => socket.destroy())
      await new Promise((resolve) => void socket.resume().once('close', resolve))
      responses += 1
      if (responses === FIRST_RESPONSES) process.send?.('on')
    } else {
      unread.push(socket)
      if (unread.length > MAX_UNREAD) unread.shift()?.destroy()
    }
  }
}

process.once('message', (/** @type {Flood} */ flood) => {
  for (let each = 0; each < (flood.parallel ?? PARALLEL); each++) void sendOn(flood)
})
process.once('disconnect', () => process.exit())
