/** A vendor that sends bytes of which no event comes: how long it may go on, and whom it holds up. */

import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { VENDORS } from '../../../core/test/formats/vendors.ts'
import type { HttpProviderOptions } from '../../src/index.ts'
import { collect, collectWith, last, request, run, STOP, setUp, TEXT } from './http-support.ts'

const utf8 = new TextEncoder()

const JUNK: Record<string, string> = {
  comments: ': keep-alive\n\n',
  'unknown events': 'data: {"type":"novelty"}\n\n',
  pings: 'event: ping\ndata: {"type":"ping"}\n\n',
}

/** To other vendors these are malformed, and end the response at once. */
const CHAT_JUNK: Record<string, string> = {
  'empty data': 'data: {}\n\n',
  'empty deltas': 'data: {"choices":[{"index":0,"delta":{"content":""}}]}\n\n',
  'repeated usage':
    'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}\n\n',
}

/** A body that goes on and on; the first argument is what comes first. */
function endless(text: string, before = '', wait: () => Promise<void> = async () => {}) {
  let sent = 0
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(sink) {
        await wait()
        sent += 1
        sink.enqueue(utf8.encode(sent === 1 && before !== '' ? before : text))
      },
    },
    { highWaterMark: 0 },
  )
  return { fetch: async () => new Response(body), sent: () => sent }
}

describe.each(Object.entries(VENDORS))('%s', (id, row) => {
  const junk = Object.entries({ ...JUNK, ...(id === 'openai-compatible' && CHAT_JUNK) })

  test.each(junk)('%s do not postpone the end forever', async (_name, text) => {
    const clock = fakeClock()
    const tenSeconds = () => new Promise<void>((resolve) => void clock.after(10_000, resolve))
    const { fetch, sent } = endless(text, '', tenSeconds)
    const provider = row.create({ fetch, clock })
    const events = await collectWith(clock, provider.stream(request, run))
    expect(last(events)).toMatchObject({
      type: 'response_error',
      error: { code: 'UPSTREAM_TIMEOUT', message: expect.stringContaining('600000 ms') },
    })
    expect(sent()).toBeLessThanOrEqual(61)
  })

  test.each(junk)('a flood of %s ends at its size limit', async (_name, text) => {
    const { fetch } = endless(text.repeat(1000))
    const provider = row.create({ fetch, clock: fakeClock(), maxStalledBytes: 500_000 })
    expect(last(await collect(provider.stream(request, run)))).toMatchObject({
      type: 'response_error',
      error: { code: 'UPSTREAM_MALFORMED', message: expect.stringContaining('500000 bytes') },
    })
  })
})

test('keep-alives for nine minutes between events are accepted, repeatedly', async () => {
  const clock = fakeClock()
  const { provider } = await setUp(
    (response) => {
      response.writeHead(200)
      let minutes = 0
      const beat = (): void => {
        minutes += 1
        if (minutes === 28) return void response.end(`data: ${STOP}\n\n`)
        response.write(minutes % 9 === 0 ? `data: ${TEXT}\n\n` : ': processing\n\n')
        clock.after(60_000, beat)
      }
      beat()
    },
    { clock },
  )
  expect(last(await collectWith(clock, provider.stream(request, run)))).toMatchObject({
    type: 'response_done',
  })
})

test('the bytes of a complete large event no longer count', async () => {
  const large = TEXT.replace('Hello', 'x'.repeat(40_000))
  const { provider } = await setUp(
    (response) => {
      response.writeHead(200)
      response.end(`data: ${large}\n\n`.repeat(10) + `data: ${STOP}\n\n`)
    },
    { maxStalledBytes: 100_000 },
  )
  expect(last(await collect(provider.stream(request, run)))).toMatchObject({
    type: 'response_done',
  })
})

test('a slow reader is not a vendor stall', async () => {
  const clock = fakeClock()
  const frames = `data: ${TEXT}\n\n`.repeat(400)
  const { provider } = await setUp(
    (response) => {
      response.writeHead(200)
      response.end(`${frames}data: ${STOP}\n\n`)
    },
    { clock },
  )
  const payloads = []
  for await (const payload of provider.stream(request, run)) {
    if (payloads.length === 0) await clock.advance(3_600_000)
    payloads.push(payload)
  }
  expect(payloads.at(-1)).toMatchObject({ type: 'response_done' })
})

test('five floods yield to the event loop every few milliseconds', {
  tags: ['slow'],
}, async () => {
  const options = (): HttpProviderOptions => ({
    fetch: endless('data: {}\n\n'.repeat(100_000)).fetch,
    maxStalledBytes: 3_000_000,
  })
  const chat = VENDORS['openai-compatible']
  let isOver = false
  const all = Promise.all(
    Array.from({ length: 5 }, () =>
      collect(chat?.create(options()).stream(request, run) ?? emptyStream()),
    ),
  ).finally(() => {
    isOver = true
  })
  let turns = 0
  while (!isOver) {
    await new Promise(setImmediate)
    turns += 1
  }
  await all
  // 15 MB of the smallest events take half a second. Without slices it is one turn of the loop.
  expect(turns).toBeGreaterThan(10)
})

async function* emptyStream() {}
