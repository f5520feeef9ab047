// Q: what does a reader cost that has nothing to read?
// Load: 5,000 connections to the xapi stream of a silent turn. Rival: as many connections to the few lines of
//     `node:http` that keep one open. Growth of the resident memory of the server's process, each in a fresh
//     process without any warm-up.
import { openIdle, submit, withServer } from './gateway-clients.mjs'
import { expectRatio, interleave, isQuick, median, printTable } from './measure.mjs'

const CONNECTIONS = 5000
const AT_ONCE = 250
const ROUNDS = isQuick ? 1 : 7
// Silent for as long as the bench takes.
const SILENT = { atOnce: 1, tokens: 1, perSecond: 1 / 600 }

/** @param {import('./gateway-process.mjs').ServerSpec} spec @param {(url: string) => Promise<string>} target */
function bytesPerConnection(spec, target) {
  return withServer(spec, async ({ url, spent }) => {
    const stream = await target(url)
    const before = await spent()
    for (let open = 0; open < CONNECTIONS; open += AT_ONCE) {
      await Promise.all(Array.from({ length: AT_ONCE }, () => openIdle(stream)))
    }
    const after = await spent()
    return (after.rss - before.rss) / CONNECTIONS
  })
}

/** @type {(() => Promise<number>)[]} */
const subjects = [
  () =>
    bytesPerConnection({ kind: 'gateway', pace: SILENT }, async (url) => {
      const { turnId } = await submit(url, { prompt: 'say nothing' })
      return `${url}/xapi/turns/${turnId}/stream`
    }),
  () => bytesPerConnection({ kind: 'raw' }, async (url) => url),
]

export async function benchGatewayIdle() {
  /** @type {number[][]} */
  const bytes = [[], []]
  await interleave(ROUNDS, subjects.length, async (index) => {
    bytes[index]?.push((await subjects[index]?.()) ?? Number.NaN)
  })
  const [ours = Number.NaN, raw = Number.NaN] = bytes.map(median)
  printTable(`gateway: KB per idle connection, ${CONNECTIONS} of them, ${ROUNDS} rounds`, [
    { server: 'gateway, xapi', KB: ours / 1024 },
    { server: 'raw node:http', KB: raw / 1024 },
  ])
  expectRatio('gateway: memory of an idle reader / raw', ours / raw, 1.5, 1.2)
}
