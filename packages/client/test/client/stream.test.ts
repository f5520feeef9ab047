/** What a client does with streams that go wrong, on a clock and a page of the test. */

import { describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { encodeSse, type StreamOutput } from '../../../core/src/index.ts'
import { createClient } from '../../src/index.ts'
import { FakePage } from './support.ts'

const STREAM = { 'content-type': 'text/event-stream; charset=utf-8' }

/** A stream that a test writes. */
class Script {
  readonly url: string
  readonly signal: AbortSignal | undefined
  readonly response: Response
  readonly #encoder = new TextEncoder()
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined

  constructor(url: string, signal: AbortSignal | undefined) {
    this.url = url
    this.signal = signal
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller
      },
    })
    this.response = new Response(body, { headers: STREAM })
    this.signal?.addEventListener('abort', () => this.fail('aborted'))
  }

  get from(): string | null {
    return new URL(this.url).searchParams.get('from')
  }

  get encoding(): string | null {
    return new URL(this.url).searchParams.get('encoding')
  }

  /** The first frames. */
  open(pingMs = 1000): void {
    this.send(encodeSse({ retry: 1000, comment: `heartbeat every ${pingMs} ms` }))
    this.send(encodeSse({ id: this.from ?? '' }))
  }

  output(output: StreamOutput, id?: string): void {
    this.send(encodeSse({ data: JSON.stringify(output), ...(id !== undefined && { id }) }))
  }

  event(event: string, data: object, id?: string): void {
    this.send(encodeSse({ event, data: JSON.stringify(data), ...(id !== undefined && { id }) }))
  }

  send(text: string): void {
    this.#controller?.enqueue(this.#encoder.encode(text))
  }

  end(): void {
    this.#controller?.close()
  }

  fail(message: string): void {
    try {
      this.#controller?.error(new TypeError(message))
    } catch {
      // It has ended.
    }
  }
}

/** Our client passes texts. */
function addressOf(input: Parameters<typeof fetch>[0]): string {
  return typeof input === 'string' ? input : ''
}

function setUp(answers: (Response | 'offline')[] = []) {
  const clock = fakeClock(1_000_000)
  const page = new FakePage()
  const streams: Script[] = []
  const fetch = vi.fn<typeof globalThis.fetch>(async (url, init) => {
    const answer = answers.shift()
    if (answer === 'offline') throw new TypeError('Load failed')
    if (answer !== undefined) return answer
    const script = new Script(addressOf(url), init?.signal ?? undefined)
    streams.push(script)
    return script.response
  })
  const client = createClient({ baseUrl: 'http://x/', clock, page, fetch, random: () => 1 })
  /** Lets everything happen that needs no time. */
  const settle = async () => {
    await clock.advance(0)
    await clock.advance(0)
    page.draw()
  }
  const stream = (at = -1) => {
    const found = streams.at(at)
    if (found === undefined) throw new Error('no stream was opened')
    return found
  }
  return { clock, page, client, streams, stream, fetch, settle }
}

const IDS = { turnId: 't', threadId: 'h' }

function said(content: string, status: 'create' | 'update' | 'complete' = 'update'): StreamOutput {
  return { type: 'message', ...IDS, itemId: 'a', origin: 'agent', content, status }
}

const END: StreamOutput = { type: 'turn_complete', ...IDS, status: 'complete' }

function opened(answers?: (Response | 'offline')[]) {
  const given = setUp(answers)
  const turn = given.client.turn('t')
  const unsubscribe = turn.subscribe(() => {})
  const text = () => turn.getSnapshot().turn?.items[0]?.content
  return { ...given, turn, unsubscribe, text, state: () => turn.getSnapshot().connection }
}

describe('silence', () => {
  test('for twice the announced interval loses the connection, which resumes', async () => {
    const { clock, stream, streams, settle, text, unsubscribe } = opened()
    await settle()
    stream().open(1000)
    stream().output(said('One', 'create'), '1-1')
    await settle()
    await clock.advance(1900)
    stream().send(': heartbeat\n\n')
    await clock.advance(1999)
    expect(streams).toHaveLength(1)
    await clock.advance(1)
    expect(stream(0).signal?.aborted).toBe(true)
    await clock.advance(250)
    await settle()
    expect(stream().from).toBe('1-1')
    expect(text()).toBe('One')
    unsubscribe()
  })

  test('of a hidden page is judged when it is shown: kept if it heard something, else replaced at once', async () => {
    const { clock, page, stream, streams, settle, unsubscribe } = opened()
    await settle()
    stream().open(1000)
    await settle()
    page.hidden = true
    await clock.advance(3000)
    stream().send(': heartbeat\n\n')
    await clock.advance(500)
    page.hidden = false
    page.wake()
    await settle()
    expect(streams).toHaveLength(1)
    page.hidden = true
    await clock.advance(60_000)
    expect(streams).toHaveLength(1)
    page.hidden = false
    page.wake()
    await settle()
    expect(stream(0).signal?.aborted).toBe(true)
    expect(streams).toHaveLength(2)
    unsubscribe()
  })

  test('before the response loses a request too: after 5 s at first, later after up to 30 s', async () => {
    const { clock, client, fetch } = setUp()
    fetch.mockImplementation(() => new Promise(() => {}))
    const unsubscribe = client.turn('t').subscribe(() => {})
    let delayMs = 250
    for (const [count, limitMs] of [5000, 10_000, 20_000, 30_000, 30_000].entries()) {
      await clock.advance(limitMs - 1)
      expect(fetch).toHaveBeenCalledTimes(count + 1)
      await clock.advance(1 + delayMs)
      expect(fetch).toHaveBeenCalledTimes(count + 2)
      delayMs *= 2
    }
    unsubscribe()
  })

  test.each([
    [2, 30_000],
    [1_000_000, 155_000],
  ])(
    'of a submit of %i characters loses it after %i ms: uploads report no progress',
    async (length, limitMs) => {
      const { clock, client, fetch } = setUp()
      fetch.mockImplementation(() => new Promise(() => {}))
      const { turnId } = client.submit({ prompt: 'x'.repeat(length) })
      await clock.advance(limitMs)
      expect(fetch).toHaveBeenCalledTimes(1)
      await clock.advance(1000)
      expect(fetch).toHaveBeenCalledTimes(2)
      void client.cancel(turnId)
    },
  )
})

describe('a first connection', () => {
  test.each([408, 429, 500, 502, 503, 507])('is tried again after %i', async (status) => {
    const { clock, turn, streams, state, settle, unsubscribe } = opened([
      new Response('<html>', { status }),
    ])
    await settle()
    expect(state()).toMatchObject({ status: 'connecting', cause: { code: `HTTP_${status}` } })
    await clock.advance(250)
    expect(streams).toHaveLength(1)
    expect(turn.getSnapshot().turn).toBeUndefined()
    unsubscribe()
  })

  test.each([
    ['in seconds', '20'],
    ['as a date', new Date(1_020_000).toUTCString()],
  ])('waits for retry-after %s, also when the page wakes', async (_name, retryAfter) => {
    const busy = new Response('', { status: 429, headers: { 'retry-after': retryAfter } })
    const { clock, page, streams, settle, unsubscribe } = opened([busy])
    await settle()
    await clock.advance(19_999)
    page.wake()
    await settle()
    expect(streams).toHaveLength(0)
    await clock.advance(1)
    expect(streams).toHaveLength(1)
    unsubscribe()
  })

  test('does not take a page of a proxy for a stream', async () => {
    const { clock, streams, state, settle, unsubscribe } = opened([new Response('<html>')])
    await settle()
    expect(state()).toMatchObject({ status: 'connecting', cause: { code: 'CONNECTION_LOST' } })
    await clock.advance(250)
    expect(streams).toHaveLength(1)
    unsubscribe()
  })

  test('is made at once when the network is back', async () => {
    const { page, streams, settle, unsubscribe } = opened(['offline'])
    await settle()
    expect(streams).toHaveLength(0)
    page.wake()
    await settle()
    expect(streams).toHaveLength(1)
    unsubscribe()
  })

  test('fails for good after 400, and can be tried again', async () => {
    const { turn, streams, state, settle, unsubscribe } = opened([
      new Response('{}', { status: 400 }),
    ])
    await settle()
    expect(state()).toMatchObject({ status: 'failed', cause: { status: 400 } })
    turn.reconnect()
    await settle()
    expect(streams).toHaveLength(1)
    unsubscribe()
  })

  test('that failed is tried again by the next loop', async () => {
    const { turn, stream, settle, unsubscribe } = opened([new Response('{}', { status: 400 })])
    await settle()
    unsubscribe()
    const end = turn.done()
    await settle()
    stream().open()
    stream().output(END, '1-1')
    await expect(end).resolves.toMatchObject({ turn: { status: 'complete' } })
  })
})

describe('frames', () => {
  test('appends extend their item', async () => {
    const { stream, settle, text, turn, unsubscribe } = opened()
    await settle()
    stream().open()
    stream().output(said('One', 'create'), '1-1')
    const append = { itemId: 'a', at: 3, text: ' two', length: 7, status: 'complete' }
    stream().event('append', append, '1-2')
    stream().output(END, '1-3')
    await settle()
    expect(text()).toBe('One two')
    expect(turn.getSnapshot()).toMatchObject({
      turn: { status: 'complete' },
      connection: { status: 'ended' },
    })
    unsubscribe()
  })

  test('an append that does not fit restarts without a cursor, the second time without appends', async () => {
    const { clock, stream, streams, settle, text, unsubscribe } = opened()
    const append = { itemId: 'a', at: 9, text: ' two', length: 13, status: 'update' }
    for (let round = 0; round < 2; round++) {
      await settle()
      stream().open()
      stream().output(said('One', 'create'), '1-1')
      stream().event('append', append, '1-2')
      await settle()
      await clock.advance(500)
    }
    stream().open()
    stream().output(said('One', 'create'), '1-1')
    await settle()
    expect(text()).toBe('One')
    expect(streams.map(({ from }) => from)).toEqual(['0-0', '0-0', '0-0'])
    expect(streams.map(({ encoding }) => encoding)).toEqual(['append', 'append', null])
    unsubscribe()
  })

  test.each([
    ['not JSON', 'data: {"type":\n\n'],
    ['not an object', 'data: null\n\n'],
  ])('data that is %s restarts without a cursor', async (_name, frame) => {
    const { clock, stream, streams, settle, unsubscribe } = opened()
    await settle()
    stream().open()
    stream().output(said('One', 'create'), '1-1')
    stream().send(frame)
    await settle()
    await clock.advance(250)
    expect(streams.map(({ from }) => from)).toEqual(['0-0', '0-0'])
    unsubscribe()
  })

  test('unknown frames and outputs are ignored', async () => {
    const { stream, streams, settle, text, unsubscribe } = opened()
    await settle()
    stream().open()
    stream().event('later', { version: 9 })
    stream().output({ type: 'turn_paused', ...IDS } as never, '1-1')
    stream().output(said('One', 'create'), '1-2')
    await settle()
    expect(text()).toBe('One')
    expect(streams).toHaveLength(1)
    unsubscribe()
  })

  test('a resync reads everything again, and shows the old text until the new one is complete', async () => {
    const { clock, stream, settle, text, turn, unsubscribe } = opened()
    await settle()
    stream().open()
    stream().output(said('Old text', 'create'), '1-5')
    await settle()
    stream().fail('Load failed')
    await clock.advance(250)
    expect(stream().from).toBe('1-5')
    stream().open()
    stream().event('resync', { reason: 'foreign', offset: '0-0' })
    await settle()
    await clock.advance(500)
    expect(stream().from).toBe('0-0')
    stream().open()
    stream().output({ type: 'turn_started', ...IDS })
    await settle()
    expect(text()).toBe('Old text')
    stream().output(said('New', 'create'), '1-2')
    await settle()
    expect(text()).toBe('New')
    expect(turn.getSnapshot().turn?.started).toBeDefined()
    unsubscribe()
  })

  test('a turn of a thread that has expired stays, and the others follow', async () => {
    const outputs = [said('One', 'complete'), END]
    const page = { turns: [{ turnId: 't', offset: '1-3', outputs }] }
    const { client, stream, streams, settle } = setUp([Response.json(page)])
    const thread = client.thread('h')
    const unsubscribe = thread.subscribe(() => {})
    await vi.waitFor(() => expect(streams).toHaveLength(1))
    expect(stream().from).toBe('t/1-3')
    stream().open()
    stream().event('resync', { reason: 'trimmed', offset: 't/0-0' })
    stream().output({ type: 'turn_started', turnId: 't2', threadId: 'h' }, 't2/1-1')
    await settle()
    await vi.waitFor(async () => {
      await settle()
      expect(thread.getSnapshot().turns.map(({ turnId }) => turnId)).toEqual(['t', 't2'])
    })
    expect(streams).toHaveLength(1)
    unsubscribe()
  })

  test('a cursor that the gateway does not accept restarts without one', async () => {
    const invalid = { error: { code: 'CURSOR_INVALID', message: 'no' } }
    const { clock, stream, streams, settle, unsubscribe } = opened([
      Response.json(invalid, { status: 400 }),
    ])
    await settle()
    await clock.advance(250)
    await settle()
    expect(streams).toHaveLength(1)
    expect(stream().from).toBe('0-0')
    unsubscribe()
  })

  test('204 without an end reads everything: the cursor was that of another turn', async () => {
    const { clock, stream, streams, settle, unsubscribe } = opened([
      new Response(null, { status: 204 }),
    ])
    await settle()
    await clock.advance(250)
    stream().open()
    stream().output(END, '1-1')
    await settle()
    expect(streams).toHaveLength(1)
    unsubscribe()
  })

  test('an event that is too large is final', async () => {
    const { stream, settle, state, unsubscribe } = opened()
    await settle()
    stream().open()
    // In few parts: each of them copies the text so far.
    for (let count = 0; count < 4; count++) stream().send('x'.repeat(9 * 1024 * 1024))
    for (let count = 0; count < 10; count++) await settle()
    expect(state()).toMatchObject({ status: 'failed', cause: { code: 'EVENT_TOO_LARGE' } })
    unsubscribe()
  })
})

test('a hidden page, which draws no frames, is notified at once', async () => {
  const { page, client, stream, settle } = setUp()
  const turn = client.turn('t')
  const texts: (string | undefined)[] = []
  turn.subscribe(() => texts.push(turn.getSnapshot().turn?.items[0]?.content))
  await settle()
  stream().open()
  stream().output(said('One', 'create'), '1-1')
  await settle()
  texts.length = 0
  page.hidden = true
  stream().output(said('One two'), '1-2')
  await vi.waitFor(() => expect(texts).toEqual(['One two']))
})

describe('listeners', () => {
  test('are called once per frame, and at once at the end', async () => {
    const { clock, page, client, stream, settle } = setUp()
    const turn = client.turn('t')
    const texts: (string | undefined)[] = []
    turn.subscribe(() => texts.push(turn.getSnapshot().turn?.items[0]?.content))
    await settle()
    stream().open()
    await settle()
    texts.length = 0
    for (let length = 1; length <= 50; length++) {
      stream().output(said('x'.repeat(length)), `1-${length}`)
      await clock.advance(0)
    }
    expect(texts).toEqual([])
    expect(turn.getSnapshot().turn).toBeUndefined()
    page.draw()
    expect(texts).toEqual(['x'.repeat(50)])
    stream().output(said('x'.repeat(60), 'complete'), '1-60')
    stream().output(END, '1-61')
    await clock.advance(0)
    expect(texts).toEqual(['x'.repeat(50), 'x'.repeat(60)])
    page.draw()
    expect(texts).toHaveLength(2)
  })

  test('no timer, listener or request outlives them', async () => {
    const { clock, page, stream, streams, settle, turn, unsubscribe } = opened()
    expect(page.listeners.size).toBeGreaterThan(0)
    await settle()
    stream().open()
    stream().output(said('One', 'create'), '1-1')
    unsubscribe()
    await clock.advance(0)
    expect(stream().signal?.aborted).toBe(true)
    expect([clock.pending(), page.listeners.size]).toEqual([0, 0])
    // And it goes on from where it was.
    const leave = turn.subscribe(() => {})
    await settle()
    expect(streams).toHaveLength(2)
    leave()
    await clock.advance(0)
    expect([clock.pending(), page.listeners.size]).toEqual([0, 0])
  })

  test('a connection that is lost for 3 s is reconnecting, and says why', async () => {
    const answers: 'offline'[] = []
    const { clock, stream, settle, state, unsubscribe } = opened(answers)
    await settle()
    stream().open(60_000)
    await settle()
    answers.push('offline', 'offline', 'offline', 'offline')
    stream().fail('Load failed')
    await settle()
    expect(state()).toEqual({ status: 'live' })
    await clock.advance(2999)
    await settle()
    expect(state()).toEqual({ status: 'live' })
    await clock.advance(1)
    await settle()
    expect(state()).toMatchObject({ status: 'reconnecting', cause: { message: 'Load failed' } })
    await clock.advance(15_000)
    stream().open()
    await settle()
    expect(state()).toEqual({ status: 'live' })
    unsubscribe()
  })
})
