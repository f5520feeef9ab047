// Q: does a large request of one client delay the others?
// Load: requests of 32 MB with images on every vendor API, and large bodies that are refused, one after the other, on
//     the embedded store. Measures the slowest of the health checks that another thread makes meanwhile, and without
//     any request as the control. The figure of a kind is the median of its rounds.
import { once } from 'node:events'
import { request } from 'node:http'
import { Worker } from 'node:worker_threads'
import { withServer } from './gateway-clients.mjs'
import { withFolder } from './log-stores.mjs'
import { expectRatio, interleave, isQuick, median, pause, printTable } from './measure.mjs'

const ROUNDS = isQuick ? 3 : 9
const WARMUP = 2
const IDLE_MS = 500
const LIMIT_MS = 100
const IMAGES = 6
const IMAGE_BYTES = 3_990_000

const images = Array.from({ length: IMAGES }, (_, index) => {
  const bytes = Buffer.alloc(IMAGE_BYTES)
  for (let at = 0; at < bytes.length; at++) bytes[at] = Math.imul(at + index, 2654435761) >>> 13
  bytes.set([0x89, 0x50, 0x4e, 0x47])
  return bytes.toString('base64')
})
const urls = images.map((data) => `data:image/png;base64,${data}`)

/** @param {object} body */
const bytesOf = (body) => Buffer.from(JSON.stringify(body))

/** @type {{ name: string, path: string, body: Buffer, status: number }[]} */
const KINDS = [
  {
    name: 'images: Chat Completions',
    path: '/v1/chat/completions',
    body: bytesOf({
      model: 'model',
      messages: [
        { role: 'user', content: urls.map((url) => ({ type: 'image_url', image_url: { url } })) },
      ],
    }),
    status: 200,
  },
  {
    name: 'images: Responses',
    path: '/v1/responses',
    body: bytesOf({
      model: 'model',
      input: [
        { role: 'user', content: urls.map((url) => ({ type: 'input_image', image_url: url })) },
      ],
    }),
    status: 200,
  },
  {
    name: 'images: Messages',
    path: '/v1/messages',
    body: bytesOf({
      model: 'model',
      max_tokens: 100,
      messages: [
        {
          role: 'user',
          content: images.map((data) => ({
            type: 'image',
            source: { type: 'base64', media_type: 'image/png', data },
          })),
        },
      ],
    }),
    status: 200,
  },
  {
    name: '300,000 unknown fields',
    path: '/api/v2/submit',
    body: bytesOf(Object.fromEntries(Array.from({ length: 300_000 }, (_, at) => [`f${at}`, 0]))),
    status: 400,
  },
  {
    name: '1.3 M empty elements',
    path: '/v1/chat/completions',
    body: Buffer.from(`{"model":"model","messages":[${'{},'.repeat(1_300_000)}{}]}`),
    status: 400,
  },
]

/** Makes health checks until it is told to report the slowest, in ms. */
const PROBE = `
  const { parentPort, workerData } = require('node:worker_threads')
  const { Agent, get } = require('node:http')
  const agent = new Agent({ keepAlive: true })
  let slowest = 0
  const check = () => {
    const since = performance.now()
    get(workerData + '/healthz', { agent }, (response) => {
      response.resume().once('end', () => {
        slowest = Math.max(slowest, performance.now() - since)
        setTimeout(check, 1)
      })
    })
  }
  parentPort.on('message', () => {
    parentPort.postMessage(slowest)
    slowest = 0
  })
  check()`

export async function benchGatewayBodies() {
  await withFolder((store) =>
    withServer(
      { kind: 'gateway', store, pace: { atOnce: 0, tokens: 1, perSecond: 1000 } },
      async ({ url }) => {
        const probe = new Worker(PROBE, { eval: true, workerData: url })
        const slowest = async () => {
          // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a worker, not a window
          probe.postMessage('report')
          const [ms] = await once(probe, 'message')
          return ms
        }
        /** @type {number[][]} */
        const delays = [[], ...KINDS.map(() => [])]
        await interleave(WARMUP + ROUNDS, delays.length, async (index, round) => {
          const kind = KINDS[index - 1]
          await slowest()
          if (kind === undefined) await pause(IDLE_MS)
          else await send(url, kind)
          const ms = await slowest()
          if (round >= WARMUP) delays[index]?.push(ms)
        })
        await probe.terminate()
        const [idle = Number.NaN, ...busy] = delays.map(median)
        const rows = [
          { name: 'no request', ms: idle },
          ...KINDS.map(({ name }, at) => ({ name, ms: busy[at] })),
        ]
        printTable('gateway: the slowest health check during a request', rows)
        for (const [at, { name }] of KINDS.entries()) {
          expectRatio(`bodies: ms more, ${name}`, (busy[at] ?? Number.NaN) - idle, LIMIT_MS)
        }
      },
    ),
  )
}

/** @param {string} url @param {typeof KINDS[number]} kind @returns {Promise<void>} */
function send(url, { name, path, body, status }) {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': body.length }
    const call = request(url + path, { method: 'POST', agent: false, headers }, (response) => {
      response.resume().once('end', () => {
        if (response.statusCode === status) resolve()
        else reject(new Error(`${name}: ${response.statusCode}`))
      })
    })
    call.once('error', reject)
    call.end(body)
  })
}
