// @module-tag slow
/** The command itself, twice, on one Redis and behind one proxy, as an operator runs it. */
import { describe, expect, test } from 'vitest'
import { deploy } from './deployment.ts'
import { type H2Answer, H2Client } from './h2-client.ts'
import { startProxy } from './proxy.ts'
import { PROXIES, type ProxyName } from './recipes.ts'

// Six processes are started, on a machine that may have much else to do.
const TIMEOUT = 60_000
const STREAM = '/api/v2/stream/turn'
const READERS = 6

/** A turn that runs at one instance, and readers of it who came through the proxy to both. */
async function watchedTurn(name: ProxyName) {
  const { instances, key } = await deploy()
  const [killed, survivor] = instances
  const headers = { authorization: `Bearer ${key}` }
  // Through a proxy of its own: the turn has to run where it survives.
  const side = await H2Client.open(await startProxy(name, { upstreams: [survivor.url] }))
  const submit = { prompt: 'Count', model: 'scripted/long', turnId: 'turn' }
  expect((await side.post('/api/v2/submit', submit, headers)).status).toBe(202)
  const upstreams = instances.map(({ url }) => url)
  const client = await H2Client.open(await startProxy(name, { upstreams }))
  const readers: H2Answer[] = []
  for (let each = 0; each < READERS; each++) {
    const reader = client.ask(STREAM, { headers })
    await reader.until(({ data }) => data.length > 2)
    readers.push(reader)
  }
  return { killed, client, readers, headers }
}

describe.each(PROXIES)('behind %s', { timeout: TIMEOUT }, (name) => {
  test('readers of a killed instance resume at the other without loss', async () => {
    const { killed, client, readers, headers } = await watchedTurn(name)
    killed.process.child.kill('SIGKILL')
    // The proxy gave as many to one as to the other.
    const cut = () => readers.filter(({ isOver }) => isOver).length
    await expect.poll(cut, { timeout: TIMEOUT }).toBe(READERS / 2)

    const parts = readers.map((reader) => {
      const resume = { ...headers, 'last-event-id': reader.cursor }
      return reader.isOver ? [reader, client.ask(STREAM, { headers: resume })] : [reader]
    })
    for (const [first, last = first] of parts) {
      const seen = last?.data.length ?? 0
      await last?.until(({ data }) => data.length > seen + 2)
    }
    expect((await client.post('/api/v2/runs/turn/cancel', {}, headers)).status).toBe(202)
    for (const [first, last = first] of parts) await last?.ended()

    const whole = client.ask(STREAM, { headers })
    await whole.ended()
    expect(whole.data.at(-1)).toContain('"type":"turn_aborted_by_user"')
    for (const part of parts) expect(part.flatMap(({ data }) => data)).toEqual(whole.data)
  })
})
