/**
 * `turnstream/client` in a real Chromium, on a page of another origin than the gateway's, with what happens to tabs.
 *
 * @module-tag slow
 */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { BEGINNING, ENDING } from '../clients/chat-vendor.ts'
import { useBrowser } from './browser.ts'
import { Chat, type ChatOptions, checkEnds, checkShows } from './chat.ts'
import { Gateway } from './gateway.ts'
import type { BrowserContext } from './playwright.ts'
import { startSite } from './site.ts'
import { longestTask, TRACE_CATEGORIES } from './tasks.ts'
import { startUnreliableNetwork } from './unreliable-network.ts'
import { hidePage } from './visibility.ts'

const { browser, isFull, newContext } = useBrowser()

let site: Awaited<ReturnType<typeof startSite>>
let shared: Gateway

beforeAll(async () => {
  site = await startSite()
  shared = await new Gateway().start({ corsOrigins: [site.url], heartbeat: '1s' })
})
afterAll(() => Promise.all([site.close(), shared.close()]))

/** A gateway for one test. */
function ownGateway(): Gateway {
  const gateway = new Gateway()
  onTestFinished(() => gateway.close())
  return gateway
}

/** Longer than a step of the gradient, so that it is shown at once. */
const MORE = ', more of it than a few words so that a snapshot is due,'

let prompts = 0

/** A page that shows the beginning of an answer. */
async function startAnswer(gateway = shared, options: ChatOptions = {}, url = gateway.url) {
  const context = await newContext()
  const streams = countStreams(context)
  prompts += 1
  const prompt = `Prompt ${prompts}`
  const open = () =>
    Chat.open(context, { site: site.url, gateway: url, thread: `thread-${prompts}`, ...options })
  const chat = await open()
  const turnId = await chat.submit(prompt)
  await checkShows(chat, BEGINNING)
  return {
    context,
    chat,
    turnId,
    streams,
    /** Opens another tab of the thread. */
    open,
    isOpen: () => gateway.vendor.open.has(prompt),
    say: (text: string) => gateway.vendor.say(prompt, text),
    finish: () => gateway.vendor.finish(prompt),
  }
}

/** Counts requests for streams. */
function countStreams(context: BrowserContext): () => number {
  let count = 0
  context.on('request', (request) => {
    if (/\/streams?$/.test(new URL(request.url()).pathname)) count += 1
  })
  return () => count
}

test('an answer is shown while it grows', async () => {
  const { chat, turnId, say, finish } = await startAnswer()
  say(MORE)
  await checkShows(chat, BEGINNING + MORE)
  finish()
  await checkShows(chat, BEGINNING + MORE + ENDING)
  await checkEnds(chat, 'complete')
  expect(await shared.storedText(turnId)).toBe(BEGINNING + MORE + ENDING)
})

test('a page that is reloaded in the middle shows the same text and goes on', async () => {
  const { chat, say, finish } = await startAnswer()
  const reloaded = chat.page.reload()
  say(MORE)
  await reloaded
  await checkShows(chat, BEGINNING + MORE)
  say(MORE)
  await checkShows(chat, BEGINNING + MORE + MORE)
  finish()
  await checkShows(chat, BEGINNING + MORE + MORE + ENDING)
  await checkEnds(chat, 'complete')
  expect(await chat.turns()).toHaveLength(1)
})

test('a page survives a gateway that is killed and started again', async () => {
  const gateway = await ownGateway().start({ corsOrigins: [site.url], lease: '2s' })
  const { chat, turnId } = await startAnswer(gateway)
  await gateway.kill()
  // It is sent as soon as there is a gateway.
  await chat.submit('Again')
  expect(await chat.turns()).toMatchObject([
    { status: 'running', text: BEGINNING },
    { status: 'running', text: '' },
  ])
  await gateway.run()
  await checkShows(chat, BEGINNING)
  gateway.vendor.finish('Again')
  await checkShows(chat, BEGINNING + ENDING)
  await expect
    .poll(() => chat.turns())
    .toMatchObject([
      { status: 'error', code: 'PRODUCER_LOST', text: await gateway.storedText(turnId) },
      { status: 'complete' },
    ])
})

test('a page that was offline shows what it missed', async () => {
  const network = await startUnreliableNetwork(shared.url)
  const { context, chat, say, finish } = await startAnswer(shared, {}, network.url)
  await context.setOffline(true)
  network.cut()
  say(MORE)
  await expect.poll(() => chat.statuses()).toContain('reconnecting')
  await checkShows(chat, BEGINNING)
  await context.setOffline(false)
  await checkShows(chat, BEGINNING + MORE)
  await expect.poll(async () => (await chat.statuses()).at(-1)).toBe('live')
  finish()
  await checkShows(chat, BEGINNING + MORE + ENDING)
})

test('a connection that went silent is replaced', async () => {
  const network = await startUnreliableNetwork(shared.url)
  const { chat, say, finish } = await startAnswer(shared, {}, network.url)
  network.stall()
  say(MORE)
  await checkShows(chat, BEGINNING + MORE)
  finish()
  await checkEnds(chat, 'complete')
})

test('a token that expires while a page reconnects is replaced once', async () => {
  const gateway = ownGateway()
  const token = gateway.addKey('old')
  const freshToken = gateway.addKey('new')
  await gateway.start({ corsOrigins: [site.url], keysFile: 'keys' })
  const { chat, turnId, say, finish } = await startAnswer(gateway, { token, freshToken })
  expect(await chat.auths()).toBe(0)
  // Its streams are cut.
  await gateway.revokeKey('old')
  say(MORE)
  await checkShows(chat, BEGINNING + MORE)
  finish()
  await checkShows(chat, BEGINNING + MORE + ENDING)
  expect(await gateway.storedText(turnId, freshToken)).toBe(BEGINNING + MORE + ENDING)
  expect(await chat.auths()).toBe(1)
})

test('a stop in one tab ends the turn in the other', async () => {
  const { chat, turnId, open, isOpen } = await startAnswer()
  const other = await open()
  await checkShows(other, BEGINNING)
  await other.cancel(turnId)
  for (const tab of [chat, other]) {
    await checkEnds(tab, 'aborted')
    await checkShows(tab, BEGINNING)
  }
  await expect.poll(isOpen).toBe(false)
})

describe('hidden pages', () => {
  test('a hidden page releases its stream, and shows what it missed when it is shown', async () => {
    const gateway = await ownGateway().start({ corsOrigins: [site.url], heartbeat: '1s' })
    const { context, chat, turnId, streams, say, finish } = await startAnswer(gateway)
    const before = streams()
    const hidden = await hidePage(context, chat.page)
    await expect.poll(() => chat.visibility()).toBe('hidden')
    await expect.poll(() => gateway.maxOpenStreams()).toBe(0)
    say(MORE)
    await expect.poll(() => gateway.storedText(turnId)).toBe(BEGINNING + MORE)
    await hidden.show()
    await checkShows(chat, BEGINNING + MORE)
    finish()
    await checkShows(chat, BEGINNING + MORE + ENDING)
    expect(streams()).toBe(before + 1)
  })

  test('a page that was frozen shows what it missed', async () => {
    const { context, chat, turnId, say, finish } = await startAnswer()
    const hidden = await hidePage(context, chat.page)
    await hidden.freeze()
    say(MORE)
    await expect.poll(() => shared.storedText(turnId)).toBe(BEGINNING + MORE)
    // The page has not run since.
    await checkShows(chat, BEGINNING)
    await hidden.show()
    await checkShows(chat, BEGINNING + MORE)
    finish()
    await checkShows(chat, BEGINNING + MORE + ENDING)
  })

  test('a connection that died while the page was hidden is replaced when it is shown', async () => {
    const network = await startUnreliableNetwork(shared.url)
    const { context, chat, streams, say, finish } = await startAnswer(shared, {}, network.url)
    const hidden = await hidePage(context, chat.page)
    await expect.poll(() => chat.visibility()).toBe('hidden')
    network.stall()
    const before = streams()
    say(MORE)
    // Longer than the silence that makes a visible page reconnect.
    await chat.waitInPage(3000)
    expect(streams()).toBe(before)
    await checkShows(chat, BEGINNING)
    await hidden.show()
    await checkShows(chat, BEGINNING + MORE)
    finish()
    await checkEnds(chat, 'complete')
  })

  test('a page that comes back from the back/forward cache goes on', async () => {
    const { chat, say, finish } = await startAnswer()
    await chat.page.goto(`${site.url}/away.html`)
    say(MORE)
    await chat.goBack()
    await checkShows(chat, BEGINNING + MORE)
    // Without the cache the page is loaded again.
    expect(await chat.returns()).toEqual(isFull() ? [false, true] : [false])
    finish()
    await checkShows(chat, BEGINNING + MORE + ENDING)
  })
})

describe('tabs that share', () => {
  const share = { share: 'yes' } as const

  test('use one connection, and stop the turn of each other', async () => {
    const { chat, turnId, open, streams, say, isOpen } = await startAnswer(shared, share)
    const before = streams()
    const others = [await open(), await open()]
    const tabs = [chat, ...others]
    for (const tab of tabs) await checkShows(tab, BEGINNING)
    say(MORE)
    for (const tab of tabs) await checkShows(tab, BEGINNING + MORE)
    expect(streams()).toBe(before)
    await expect.poll(() => shared.maxOpenStreams()).toBe(1)
    await others[0]?.cancel(turnId)
    for (const tab of tabs) await checkEnds(tab, 'aborted')
    await expect.poll(isOpen).toBe(false)
  })

  test.each([
    ['is closed', ({ page }: Chat) => page.close()],
    ['leaves', ({ page }: Chat) => page.goto(`${site.url}/away.html`)],
    ['is reloaded', ({ page }: Chat) => page.reload()],
    [
      'is frozen',
      async ({ page }: Chat, context: BrowserContext, other: Chat) =>
        (await hidePage(context, page, other.page)).freeze(),
    ],
  ])('go on when the one with the connection %s', async (_name, happen) => {
    const { context, chat, open, streams, say, finish } = await startAnswer(shared, share)
    const other = await open()
    await checkShows(other, BEGINNING)
    const before = streams()
    await happen(chat, context, other)
    say(MORE)
    await checkShows(other, BEGINNING + MORE)
    expect(streams()).toBe(before + 1)
    finish()
    await checkShows(other, BEGINNING + MORE + ENDING)
    await checkEnds(other, 'complete')
  })
})

describe('an answer of 100,000 tokens', () => {
  /** The longest task of a page while something is done. */
  async function traceTasks(chat: Chat, act: () => Promise<unknown>) {
    await browser().startTracing(chat.page, { categories: TRACE_CATEGORIES })
    await act()
    return longestTask(await browser().stopTracing())
  }

  test('causes no task of 50 ms', { timeout: 150_000 }, async () => {
    const { chat, say, finish } = await startAnswer(shared, { render: 'none' })
    const words = Array.from({ length: 100_000 }, (_, index) => ` ${index % 1000}`)
    const { wallMs, cpuMs, tasks } = await traceTasks(chat, async () => {
      for (const word of words) say(word)
      finish()
      await checkEnds(chat, 'complete', { timeout: 120_000 })
    })
    process.stdout.write(`longest of ${tasks} tasks: ${cpuMs} ms of CPU, ${wallMs} ms\n`)
    await checkShows(chat, BEGINNING + words.join('') + ENDING)
    expect(tasks).toBeGreaterThan(50)
    expect(cpuMs).toBeLessThan(50)

    const busy = await traceTasks(chat, () => chat.work())
    expect(busy.cpuMs, 'a task that is long').toBeGreaterThan(50)
  })
})
