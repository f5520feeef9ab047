/** The proxy as a process: it is killed, its client does not read, and it is crowded. */

import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { cassetteEvents } from '../../../../core/src/index.ts'
import { type Answer, startVendor } from '../../providers/vendor-server.ts'
import { turnstream } from '../process.ts'
import { untilTrue } from '../support.ts'
import { readCassetteAt, recordingsIn, responseText, testFolder } from './support.ts'

const SLOW = { tags: ['slow'], timeout: 60_000 }

async function start(answer: Answer) {
  const vendor = await startVendor(answer)
  onTestFinished(() => vendor.close())
  const cwd = testFolder()
  const proxy = turnstream(['cassette', 'record', vendor.url, '--port', '0'], { cwd })
  const [, url = ''] = await proxy.printed(/^turnstream listening on (\S+)\n/)
  return { proxy, url, tapes: join(cwd, 'cassettes') }
}

const EVENT = 'data: {"model":"m","choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'

describe('turnstream cassette record', SLOW, () => {
  test('that is killed leaves a readable cassette', async () => {
    const { proxy, url, tapes } = await start((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(EVENT)
    })
    const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body: '{}' })
    await response.body!.getReader().read()
    const path = () => join(tapes, recordingsIn(tapes)[0] ?? '')
    await eventually(() => expect(responseText(readCassetteAt(path()))).toBe(EVENT))
    proxy.child.kill('SIGKILL')
    await proxy.ended
    const cassette = readCassetteAt(path())
    expect(cassette.calls[0]?.end).toBeUndefined()
    expect(cassetteEvents(cassette).at(-1)?.event.payload).toMatchObject({
      error: { code: 'UPSTREAM_TRUNCATED', message: 'The recording is incomplete' },
    })
  })

  test('holds the vendor back for a client that does not read', async () => {
    const CHUNK = 'x'.repeat(64 * 1024)
    let sent = 0
    let isFull = false
    const { url } = await start((response) => {
      response.writeHead(200)
      while (sent < 256 * 1024 * 1024 && response.write(CHUNK)) sent += CHUNK.length
      response.on('drain', () => {
        isFull = false
        sent += CHUNK.length
        while (sent < 256 * 1024 * 1024 && response.write(CHUNK)) sent += CHUNK.length
        isFull = true
      })
      isFull = true
    })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    socket.pause()
    socket.write('POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}')
    await untilTrue(() => isFull)
    // Nothing more is taken once the buffers between the two are full.
    let before = -1
    await eventually(() => {
      const isSame = sent === before
      before = sent
      expect(isSame).toBe(true)
    })
    expect(sent).toBeLessThan(64 * 1024 * 1024)
  })

  test('refuses more requests than it can hold, and takes them again later', async () => {
    const { url } = await start((response) => void response.writeHead(200).write(EVENT))
    const aborts = Array.from({ length: 256 }, () => new AbortController())
    await Promise.all(
      aborts.map(async ({ signal }) => {
        const response = await fetch(`${url}/v1/models`, { signal })
        expect(response.status).toBe(200)
      }),
    )
    const refused = await fetch(`${url}/v1/models`)
    expect(refused.status).toBe(503)
    expect(await refused.text()).toContain('256 requests are in progress')
    for (const abort of aborts) abort.abort()
    await eventually(async () => {
      const again = new AbortController()
      const response = await fetch(`${url}/v1/models`, { signal: again.signal })
      again.abort()
      expect(response.status).toBe(200)
    })
  })
})
