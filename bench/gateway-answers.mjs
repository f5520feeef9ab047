// Q: does the cost of an answer grow with its length, or faster?
// Load: answers of 1 MB and 10 MB in chunks of 1 KB, as fast as the vendor can send them, on the embedded store. Measures
//     the CPU time of the gateway's process, and its memory in use after four of the long ones at once.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { readTail, submit, withServer } from './gateway-clients.mjs'
import { withFolder } from './log-stores.mjs'
import { expectRatio, isQuick, median, printTable } from './measure.mjs'

const ROUNDS = isQuick ? 3 : 9
const CHUNK = 'text '.repeat(200)
const SHORT_CHUNKS = 990
const TIMES_LONGER = 10
const LIMIT_TIMES = 15
const PARALLEL = 4
const LIMIT_MB = 1000

/** @param {object} delta @param {string | null} reason */
function chunkOf(delta, reason = null) {
  const choices = [{ index: 0, delta, finish_reason: reason }]
  const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }
  return `data: ${JSON.stringify({ ...head, choices })}\n\n`
}

/**
 * Answers with as many chunks as the prompt says.
 * @param {import('node:http').IncomingMessage} incoming @param {import('node:http').ServerResponse} response
 */
async function respond(incoming, response) {
  let body = ''
  for await (const part of incoming) body += part
  const count = Number(/chunks: (\d+)/.exec(body)?.[1])
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const chunk = chunkOf({ content: CHUNK })
  for (let sent = 0; sent < count; sent++) {
    if (!response.write(chunk)) await once(response, 'drain')
  }
  response.end(`${chunkOf({}, 'stop')}data: [DONE]\n\n`)
}

async function startVendor() {
  const server = createServer((incoming, response) => void respond(incoming, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  return { server, url: `http://127.0.0.1:${port}/v1` }
}

/** @param {string} url @param {number} chunks */
async function answer(url, chunks) {
  const { turnId } = await submit(url, { prompt: `chunks: ${chunks}` })
  await readTail(`${url}/xapi/turns/${turnId}/stream`, 100)
  const text = await (await fetch(`${url}/xapi/turns/${turnId}`)).text()
  if (text.length < chunks * CHUNK.length) throw new Error(`the answer ends early: ${turnId}`)
}

export async function benchGatewayAnswers() {
  const vendor = await startVendor()
  try {
    await withFolder((store) =>
      withServer({ kind: 'gateway', store, vendor: vendor.url }, async ({ url, cpu, spent }) => {
        /** @param {number} chunks */
        const costOf = async (chunks) => {
          const before = await cpu()
          await answer(url, chunks)
          return ((await cpu()) - before) / 1000
        }
        await answer(url, SHORT_CHUNKS * TIMES_LONGER)
        /** @type {{ short: number[], long: number[] }} */
        const costs = { short: [], long: [] }
        for (let round = 0; round < ROUNDS; round++) {
          costs.short.push(await costOf(SHORT_CHUNKS))
          costs.long.push(await costOf(SHORT_CHUNKS * TIMES_LONGER))
        }
        const long = Array.from({ length: PARALLEL }, () =>
          answer(url, SHORT_CHUNKS * TIMES_LONGER),
        )
        await Promise.all(long)
        const { rss } = await spent()
        printTable('gateway: answers of a fast vendor', [
          { answer: '1 MB', 'CPU ms': median(costs.short) },
          { answer: '10 MB', 'CPU ms': median(costs.long) },
        ])
        const times = median(costs.long) / median(costs.short)
        expectRatio('answers: CPU of ten times the text', times, LIMIT_TIMES, TIMES_LONGER)
        expectRatio('answers: MB after four of 10 MB', rss / 2 ** 20, LIMIT_MB)
      }),
    )
  } finally {
    vendor.server.close()
    vendor.server.closeAllConnections()
  }
}
