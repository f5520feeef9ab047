/** A request may carry tens of megabytes of images. Counts how often its bytes are read and written. */
import { expect, test, vi } from 'vitest'
import { startServer } from './support.ts'

/** Other files of the process may still work: only texts with this are counted. Its base64 has no padding. */
const PATTERN = Buffer.from('large-attachments')
const PNG = Buffer.concat([
  Buffer.from('\u0089PNG\r\n', 'latin1'),
  Buffer.alloc(1_499_996, PATTERN),
])
const ENCODED_PATTERN = PNG.toString('base64').slice(1000, 1000 + PATTERN.length * 4)

const charsOf = (texts: readonly unknown[]): number => {
  let chars = 0
  for (const text of texts) {
    if (typeof text === 'string' && text.includes(ENCODED_PATTERN)) chars += text.length
  }
  return chars
}

test('a request with large images is parsed once and encoded once', async () => {
  const server = await startServer()
  const url = `data:image/png;base64,${PNG.toString('base64')}`
  const content = [
    { type: 'text', text: 'What is this?' },
    { type: 'image_url', image_url: { url } },
  ]
  const body = JSON.stringify({ model: 'plain/m', messages: [{ role: 'user', content }] })
  const parse = vi.spyOn(JSON, 'parse')
  const stringify = vi.spyOn(JSON, 'stringify')
  try {
    const headers = { 'content-type': 'application/json' }
    const init = { method: 'POST', headers, body }
    const response = await fetch(`${server.url}/v1/chat/completions`, init)
    await response.text()
    expect(response.status).toBe(200)
    const parsed = charsOf(parse.mock.calls.map(([text]) => text))
    const encoded = charsOf(stringify.mock.results.map(({ value }) => value))
    expect(parsed).toBeGreaterThanOrEqual(body.length)
    // Once to compare it with other requests of the same id; not to measure it.
    expect(encoded / body.length).toBeLessThan(1.5)
    expect(parsed / body.length).toBeLessThan(1.5)
  } finally {
    parse.mockRestore()
    stringify.mockRestore()
  }
})
