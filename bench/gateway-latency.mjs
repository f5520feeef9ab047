// Q: how much latency does storing a token before sending it add?
// Load: a Chat Completions server sends 50 timestamped tokens a second; a reader of the gateway's v2 stream measures
//     their age. Floor: the same reader on a server that passes the vendor's bytes through. Unit: the time of one
//     append to the store alone, at the same pace. The gateway and the floor run in separate processes, alternately.

import { CHAT_END, chatChunk, withChatVendor } from './chat-vendor.mjs'
import { readStream, submit, withServer } from './gateway-clients.mjs'
import { append, createTurn, withFolder, withRedis } from './log-stores.mjs'
import { eventTexts, turnOf } from './log-turns.mjs'
import { expectRatio, median, pause, printTable, quantile } from './measure.mjs'
import { openEmbeddedLog } from './turnstream-server.mjs'

const TOKENS = 150
const GAP_MS = 20
const ROUNDS = 5
const LIMIT_COMMITS = 2
const LIMIT_REDIS = 3

/** Sends the current time as tokens. @param {import('node:http').ServerResponse} response */
async function sayTheTime(response) {
  for (let token = 0; token < TOKENS; token++) {
    response.write(chatChunk({ content: `${performance.now()} ` }))
    await pause(GAP_MS)
  }
  response.end(CHAT_END)
}

/** The age of the token in a frame. @param {string} data @returns {number | undefined} */
function ageOf(data) {
  const now = performance.now()
  if (data === '[DONE]') return undefined
  const json = JSON.parse(data)
  const text = json.payload?.delta_content ?? json.choices?.[0]?.delta?.content
  return text === undefined ? undefined : now - Number(text)
}

/** @param {string} stream @param {number[]} ages */
function takeAges(stream, ages) {
  return readStream(stream, (data) => {
    const age = ageOf(data)
    if (age !== undefined) ages.push(age)
  })
}

/** @param {string} url @param {number[]} ages */
async function readGateway(url, ages) {
  const { runId } = await submit(url, { prompt: 'the time' })
  await takeAges(`${url}/api/v2/stream/${runId}`, ages)
}

/** How long an append takes, one at a time at the pace of the tokens. @param {string} directory */
async function commitTimes(directory) {
  const log = await openEmbeddedLog({ directory })
  const turn = turnOf(0, TOKENS)
  const lease = await createTurn(log, turn)
  const times = []
  for (const [index, data] of eventTexts(turn).entries()) {
    const start = performance.now()
    await append(log, lease, 'events', [{ seq: index + 1, data }])
    times.push(performance.now() - start)
    await pause(GAP_MS)
  }
  await log.close()
  return times
}

/** @param {string} name @param {readonly number[]} times */
function row(name, times) {
  return { path: name, 'p50 ms': quantile(times, 0.5), 'p99 ms': quantile(times, 0.99) }
}

/** @param {string} vendor @param {string} directory @param {string} redis */
async function compare(vendor, directory, redis) {
  const pipe = { kind: /** @type {const} */ ('pipe'), vendor }
  const gateway = { kind: /** @type {const} */ ('gateway'), vendor }
  /** @type {Record<'direct' | 'embedded' | 'redis' | 'commit', number[]>} */
  const times = { direct: [], embedded: [], redis: [], commit: [] }
  await withServer(pipe, (direct) =>
    withServer({ ...gateway, store: `${directory}/gateway` }, (embedded) =>
      withServer({ ...gateway, store: redis }, async (onRedis) => {
        for (let round = 0; round < ROUNDS; round++) {
          await takeAges(direct.url, times.direct)
          await readGateway(embedded.url, times.embedded)
          await readGateway(onRedis.url, times.redis)
          times.commit.push(...(await commitTimes(`${directory}/bare-${round}`)))
        }
      }),
    ),
  )
  return times
}

export async function benchGatewayLatency() {
  const times = await withChatVendor(sayTheTime, (vendor) =>
    withFolder((directory) => withRedis(({ url }) => compare(vendor, directory, url))),
  )
  printTable(`gateway: from the vendor's token to the reader, ${1000 / GAP_MS} tokens/s`, [
    row('direct pipe', times.direct),
    row('gateway, embedded', times.embedded),
    row('gateway, redis', times.redis),
    row('one append to the bare embedded store', times.commit),
  ])
  const added = median(times.embedded) - median(times.direct)
  expectRatio('latency: added p50 / commit p50', added / median(times.commit), LIMIT_COMMITS)
  expectRatio(
    'latency: redis p50 / embedded p50',
    median(times.redis) / median(times.embedded),
    LIMIT_REDIS,
  )
}
