// Q: do many readers that join a turn at once slow down its writer?
// Load: a turn with 100k tokens that continues at 30 a second, on the embedded store; 500 readers join its xapi
//     stream within a second and stay. Measures the time of a token from the provider to the log, before and while
//     they join, and the memory of the gateway's process, before and at the end. Readers only check the last bytes:
//     500 browsers would parse on 500 machines.
import { readTail, submit, withServer } from './gateway-clients.mjs'
import { turnText } from './gateway-turns.mjs'
import { withFolder } from './log-stores.mjs'
import { expectRatio, pause, printTable, quantile } from './measure.mjs'

const PACE = { atOnce: 100_000, tokens: 600, perSecond: 30 }
const READERS = 500
const BEFORE_MS = 5000
const STORM_MS = 3000
const JOIN_MS = 1000
const LIMIT_SLOWER = 3
const LIMIT_MB = 64
/** The end of a complete stream. */
const ENDING = /"totalTokens":20\},"startedAt":\d+,"endedAt":\d+\}\n\n$/
const ENDING_CHARS = 100

export async function benchGatewayStorm() {
  await withFolder((store) =>
    withServer({ kind: 'gateway', store, pace: PACE, timed: true }, async ({ url, spent }) => {
      const { turnId } = await submit(url, { prompt: 'at length' })
      const stream = `${url}/xapi/turns/${turnId}/stream`
      await untilThere(`${url}/xapi/turns/${turnId}`, PACE.atOnce)
      await spent()
      await pause(BEFORE_MS)
      const before = await spent()
      const readers = Array.from({ length: READERS }, async (_, index) => {
        await pause((index / READERS) * JOIN_MS)
        return await readTail(stream, ENDING_CHARS)
      })
      for (const reader of readers) reader.catch(() => {})
      await pause(STORM_MS)
      const during = await spent()
      const texts = await Promise.all(readers)
      const after = await spent()
      const whole = texts.filter((text) => ENDING.test(text)).length
      const slower = quantile(during.kept, 0.5) / quantile(before.kept, 0.5)
      const grown = (Math.max(during.rss, after.rss) - before.rss) / 2 ** 20
      printTable(`gateway: ${READERS} readers join a turn of ${PACE.atOnce} tokens`, [
        row('before', before),
        row('while they join', during),
        row('to the end', after),
      ])
      expectRatio('storm: token to log, during / before', slower, LIMIT_SLOWER)
      expectRatio('storm: MB more', grown, LIMIT_MB)
      expectRatio('storm: readers that were cut', READERS - whole, 0)
    }),
  )
}

/** @param {string} when @param {import('./gateway-process.mjs').Spent} spent */
function row(when, { kept, rss }) {
  return {
    when,
    'p50 ms': quantile(kept, 0.5),
    'p99 ms': quantile(kept, 0.99),
    MB: rss / 2 ** 20,
  }
}

/** @param {string} url @param {number} tokens */
async function untilThere(url, tokens) {
  const chars = turnText({ atOnce: tokens, tokens: 0, perSecond: 1 }).length
  for (;;) {
    const { outputs } = /** @type {{ outputs: { origin?: string, content?: string }[] }} */ (
      await (await fetch(url)).json()
    )
    const answer = outputs.find(({ origin }) => origin === 'agent')
    if ((answer?.content?.length ?? 0) >= chars) return
    await pause(200)
  }
}
