// Q: what does an idle reader cost?
// Load: 5,000 connections to the xapi stream of a silent turn. Rival: as many connections to the few lines of
//     `node:http` that keep one open. Growth of the resident memory of the server's process, each in a fresh
//     process without any warm-up.
import { openIdle, submit, withServer } from './gateway-clients.mjs'
import { expectRatio, interleave, isQuick, median, printTable } from './measure.mjs'

const CONNECTIONS = 5000
const AT_ONCE = 250
const ROUNDS = isQuick ? 1 : 7
// Silent until the bench ends.
const SILENT = { atOnce: 1, tokens: 1, perSecond: 1 / 600 }

/** @param {import('./gateway-process.mjs').ServerSpec} spec @param {(url: string) => Promise<string>} target */
function memoryPerConnection(spec, target) {
  return withServer(spec, async ({ url, spent }) => {
    const stream = await target(url)
    const before = await spent()
    for (let open = 0; open < CONNECTIONS; open += AT_ONCE) {
      await Promise.all(Array.from({ length: AT_ONCE }, () => openIdle(stream)))
    }
    const after = await spent()
    return {
      rss: (after.rss - before.rss) / CONNECTIONS / 1024,
      heap: (after.heap - before.heap) / CONNECTIONS / 1024,
    }
  })
}

const SUBJECTS = [
  {
    name: 'gateway, xapi',
    sample: () =>
      memoryPerConnection({ kind: 'gateway', pace: SILENT }, async (url) => {
        const { turnId } = await submit(url, { prompt: 'say nothing' })
        return `${url}/xapi/turns/${turnId}/stream`
      }),
  },
  {
    name: 'raw node:http',
    sample: () => memoryPerConnection({ kind: 'raw' }, async (url) => url),
  },
]

export async function benchGatewayIdle() {
  /** @type {{ rss: number, heap: number }[][]} */
  const samples = SUBJECTS.map(() => [])
  await interleave(ROUNDS, SUBJECTS.length, async (index) => {
    const subject = SUBJECTS[index]
    if (subject) samples[index]?.push(await subject.sample())
  })
  const rows = SUBJECTS.map(({ name }, index) => ({
    server: name,
    KB: median((samples[index] ?? []).map(({ rss }) => rss)),
    'of it heap': median((samples[index] ?? []).map(({ heap }) => heap)),
  }))
  printTable(`gateway: KB per idle connection, ${CONNECTIONS} of them, ${ROUNDS} rounds`, rows)
  const [ours = Number.NaN, raw = Number.NaN] = rows.map(({ KB }) => KB)
  expectRatio('gateway: memory of an idle reader / raw', ours / raw, 1.5, 1.2)
}
