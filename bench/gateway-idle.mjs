// Q: what does a reader cost that has nothing to read?
// Load: 5,000 connections to the xapi stream of a turn that says nothing. Rival: as many connections to the
//     few lines of `node:http` that keep one open. Memory of the server's process, each in a fresh one.
import { openIdle, submit, withServer } from './gateway-clients.mjs'
import { expectRatio, median, printTable } from './measure.mjs'

const CONNECTIONS = 5000
const AT_ONCE = 250
const WARMUP = 3000
const FEW = 20
const ROUNDS = 3
const LIMIT = 1.5
// Silent for as long as the bench takes.
const SILENT = { atOnce: 1, tokens: 1, perSecond: 1 / 600 }

/** @param {import('./gateway-process.mjs').ServerSpec} spec @param {(url: string) => Promise<string>} target */
function bytesPerConnection(spec, target) {
  return withServer(spec, async ({ url, spent }) => {
    const stream = await target(url)
    // A server that has seen some traffic: a few connections at a time that come and go make its heap as large as it needs
    // to be for that, which is no part of what an open one costs.
    for (let seen = 0; seen < WARMUP; seen += FEW) {
      const leave = await Promise.all(Array.from({ length: FEW }, () => openIdle(stream)))
      for (const close of leave) close()
    }
    const before = await spent()
    for (let open = 0; open < CONNECTIONS; open += AT_ONCE) {
      await Promise.all(Array.from({ length: AT_ONCE }, () => openIdle(stream)))
    }
    const after = await spent()
    return (after.rss - before.rss) / CONNECTIONS
  })
}

export async function benchGatewayIdle() {
  /** @type {number[]} */
  const ours = []
  /** @type {number[]} */
  const raw = []
  for (let round = 0; round < ROUNDS; round++) {
    ours.push(
      await bytesPerConnection({ kind: 'gateway', pace: SILENT }, async (url) => {
        const { turnId } = await submit(url, { prompt: 'say nothing' })
        return `${url}/xapi/turns/${turnId}/stream`
      }),
    )
    raw.push(await bytesPerConnection({ kind: 'raw' }, async (url) => url))
  }
  printTable(`gateway: KB per idle connection, ${CONNECTIONS} of them`, [
    { server: 'gateway, xapi', KB: median(ours) / 1024 },
    { server: 'raw node:http', KB: median(raw) / 1024 },
  ])
  expectRatio('gateway: memory of an idle reader / raw', median(ours) / median(raw), LIMIT)
}
