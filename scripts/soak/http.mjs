// Requests that always settle. The time limit of a `fetch` may not hold: Node 20 holds abort signals weakly, and what
// waits for one that was collected never wakes up.
import { request } from 'node:http'

/** @typedef {{ method?: string, headers?: Record<string, string>, body?: string }} Init */

/**
 * Sends a request, resolves with the response when its headers arrive, and destroys both after `limitMs`.
 * @param {string} url
 * @param {Init} init
 * @param {number} limitMs
 * @returns {Promise<import('node:http').IncomingMessage>}
 */
export function open(url, { method = 'GET', headers = {}, body }, limitMs) {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    // Without an agent: a connection that is kept alive may be closed by the gateway just when it is used.
    const sent = request(url, { method, headers: { ...headers, ...length }, agent: false })
    const timer = setTimeout(() => {
      sent.destroy(new Error(`no end of the response within ${limitMs} ms`))
    }, limitMs)
    sent.on('response', resolve)
    sent.on('error', reject)
    sent.on('close', () => {
      clearTimeout(timer)
      reject(new Error('closed without a response'))
    })
    sent.end(body)
  })
}
