/**
 * More tabs of the page than a browser opens connections per host, in a real Chromium.
 *
 * @module-tag slow
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BEGINNING, ENDING } from '../clients/chat-vendor.ts'
import { useBrowser } from './browser.ts'
import { Gateway } from './gateway.ts'
import { ask, checkAnswer, openTab, refusedOn } from './page.ts'
import type { BrowserContext, Page } from './playwright.ts'
import { hidePage } from './visibility.ts'

const { newContext } = useBrowser()

let gateway: Gateway

beforeAll(async () => {
  gateway = await new Gateway().start({ heartbeat: '1s', submitsPerMinute: 'unlimited' })
})
afterAll(() => gateway.close())

interface Tab {
  readonly page: Page
  readonly prompt: string
}

/** Tabs of one browser that are all visible, each with a conversation that has begun. */
async function openTabs(context: BrowserContext, count: number): Promise<Tab[]> {
  const tabs: Tab[] = []
  for (let at = 0; at < count; at++) {
    const page = await openTab(context, `${gateway.url}/`)
    tabs.push({ page, prompt: await ask(page) })
    await checkAnswer(page, BEGINNING)
  }
  return tabs
}

const MORE = ', more of it than a few words so that a snapshot is due,'

/** Every conversation goes on, in its tab. */
async function checkGoesOn(tabs: readonly Tab[], before = BEGINNING): Promise<string> {
  for (const { prompt } of tabs) gateway.vendor.say(prompt, MORE)
  for (const { page } of tabs) await checkAnswer(page, before + MORE)
  return before + MORE
}

async function checkOneStream(): Promise<void> {
  await expect.poll(() => gateway.maxOpenStreams()).toBe(1)
}

test('ten tabs stream ten conversations over one connection', async () => {
  const context = await newContext()
  const tabs = await openTabs(context, 10)
  const text = await checkGoesOn(tabs)
  await checkOneStream()
  // The page with the connection and another one.
  for (const { page } of [tabs.shift(), tabs.pop()].flatMap((tab) => tab ?? [])) await page.close()
  await checkGoesOn(tabs, text)
  await checkOneStream()
  for (const { page, prompt } of tabs) {
    await page.reload()
    await checkAnswer(page, text + MORE)
    gateway.vendor.finish(prompt)
    await checkAnswer(page, text + MORE + ENDING)
    expect(await refusedOn(page)).toEqual([])
  }
  await checkOneStream()
})

test('eight tabs come back when the gateway was killed', async () => {
  const context = await newContext()
  const tabs = await openTabs(context, 8)
  for (const { page, prompt } of tabs) {
    gateway.vendor.finish(prompt)
    await checkAnswer(page, BEGINNING + ENDING)
  }
  await gateway.kill()
  await gateway.run()
  for (const { page } of tabs) await page.getByRole('button', { name: 'Retry' }).click()
  for (const { page } of tabs) await checkAnswer(page, BEGINNING)
  await checkGoesOn(tabs)
  await checkOneStream()
})

test('tabs go on when the one with the connection is hidden or frozen', async () => {
  const context = await newContext()
  const [first, second, ...others] = (await openTabs(context, 4)) as [Tab, Tab, ...Tab[]]
  const hidden = await hidePage(context, first.page)
  const text = await checkGoesOn([second, ...others])
  await checkAnswer(first.page, BEGINNING)
  gateway.vendor.say(first.prompt, MORE)
  await hidden.show()
  await checkAnswer(first.page, text)
  await (await hidePage(context, second.page, first.page)).freeze()
  await checkGoesOn([first, ...others], text)
  await checkOneStream()
})
