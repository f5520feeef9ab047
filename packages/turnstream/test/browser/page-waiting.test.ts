/**
 * What the page that the gateway serves says while it waits: why, what happens next and when.
 *
 * @module-tag slow
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { BEGINNING, ENDING } from '../clients/chat-vendor.ts'
import { useBrowser } from './browser.ts'
import { Gateway } from './gateway.ts'
import { ask, checkAnswer, faultsOf, openPage } from './page.ts'
import type { Page } from './playwright.ts'

const browser = useBrowser()

let gateway: Gateway

beforeAll(async () => {
  gateway = await new Gateway().start({ heartbeat: '1s' })
})
afterAll(() => gateway.close())

async function started(settings: Readonly<Record<string, unknown>>): Promise<Gateway> {
  const own = new Gateway()
  onTestFinished(() => own.close())
  return own.start(settings)
}

const button = (page: Page, name: string) => page.getByRole('button', { name })
const trouble = (page: Page) => page.locator('main .trouble').innerText()

describe('a message that is not sent', () => {
  test('says that the browser is offline and when it tries again, and is sent then', async () => {
    const { context, page } = await openPage(browser, gateway)
    await context.setOffline(true)
    const prompt = await ask(page)
    await expect
      .poll(() => trouble(page))
      .toMatch(/^Not sent yet\. You are offline\. Trying again in \d+ s\.\s+Try now$/)
    expect(await faultsOf(page)).toEqual([])
    await context.setOffline(false)
    await checkAnswer(page, BEGINNING)
    expect(await page.locator('main .trouble').count()).toBe(0)
    gateway.vendor.finish(prompt)
    await checkAnswer(page, BEGINNING + ENDING)
  })

  test('says that the server cannot be reached, and is sent at a click when it can', async () => {
    const own = await started({ heartbeat: '1s' })
    const { page } = await openPage(browser, own)
    await own.kill()
    await ask(page)
    await expect
      .poll(() => trouble(page))
      .toMatch(/^Not sent yet\. The server cannot be reached\. Trying again/)
    await own.run()
    // It may have been sent meanwhile.
    await page.evaluate(() => document.querySelector<HTMLElement>('main .trouble button')?.click())
    await checkAnswer(page, BEGINNING)
  })

  test('says that too many answers are written, and is sent when one has ended', async () => {
    const own = await started({ heartbeat: '1s', maxRunningTurns: 1 })
    const { page } = await openPage(browser, own)
    const first = await ask(page)
    await checkAnswer(page, BEGINNING)
    await button(page, 'New conversation').click()
    await ask(page)
    await expect
      .poll(() => trouble(page))
      .toMatch(/^Not sent yet\. Too many answers are being written\. Trying again.*\s+Stop$/)
    own.vendor.finish(first)
    await checkAnswer(page, BEGINNING)
    await button(page, 'New conversation').click()
    await ask(page)
    await expect.poll(() => page.locator('main .trouble').count()).toBe(1)
    await page.locator('main .trouble').getByRole('button').press('Enter')
    await expect.poll(() => page.locator('.notice').allInnerTexts()).toEqual(['Stopped.'])
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('composer')
  })
})

test('a stop that does not arrive says so', async () => {
  const { context, page } = await openPage(browser, gateway)
  await ask(page)
  await checkAnswer(page, BEGINNING)
  await context.setOffline(true)
  await button(page, 'Stop').click()
  await expect.poll(() => trouble(page)).toMatch(/^Not stopped yet\. You are offline\. Trying/)
  await context.setOffline(false)
  await expect.poll(() => page.locator('.notice').allInnerTexts()).toEqual(['Stopped.'])
})

test('a long wait for the model names it', async () => {
  const vendor = createServer()
  const own = await inFrontOf(vendor)
  const { page } = await openPage(browser, own)
  await ask(page)
  await expect
    .poll(() => page.locator('.waiting').innerText(), { timeout: 15_000 })
    .toMatch(/^Waiting for openai-compatible\/m for \d+ s/)
})

test('a conversation that is opened offline says so, and is loaded when it can be', async () => {
  const { context, page } = await openPage(browser, gateway)
  const prompt = await ask(page)
  await checkAnswer(page, BEGINNING)
  gateway.vendor.finish(prompt)
  await checkAnswer(page, BEGINNING + ENDING)
  await page.goto(`${gateway.url}/`)
  await expect.poll(() => page.locator('nav li a').first().innerText()).toBe(prompt)
  await context.setOffline(true)
  await page.locator('nav li a').first().click()
  await expect
    .poll(() => trouble(page))
    .toMatch(/^The conversation could not be loaded\. You are offline\. Trying again/)
  expect(await page.locator('.loading').count()).toBe(0)
  await context.setOffline(false)
  await checkAnswer(page, BEGINNING + ENDING)
})

describe('a key that is wrong', () => {
  const dialog = (page: Page) => page.locator('dialog[open]')

  test('is asked for again, and can be given later without a reload', async () => {
    const own = new Gateway()
    onTestFinished(() => own.close())
    const key = own.addKey('someone')
    await own.start({ keysFile: 'keys' })
    const { page } = await openPage(browser, own)
    await page.locator('dialog[open] input').fill('wrong')
    await button(page, 'Use key').click()
    await expect.poll(() => dialog(page).innerText()).toContain('does not know this key')
    await page.locator('dialog[open] input').fill('ключ')
    await button(page, 'Use key').click()
    await expect.poll(() => dialog(page).innerText()).toContain('letters, digits')
    await button(page, 'Not now').click()
    await expect
      .poll(() => trouble(page))
      .toMatch(/^The models could not be loaded\. A key is needed\.\s+Enter a key$/)
    expect(await page.locator('nav .trouble').innerText()).toContain('A key is needed.')
    await page.locator('main .trouble').getByRole('button').click()
    await page.locator('dialog[open] input').fill(key)
    await button(page, 'Use key').click()
    await expect.poll(() => page.locator('.trouble').count()).toBe(0)
    const prompt = await ask(page)
    await checkAnswer(page, BEGINNING)
    own.vendor.finish(prompt)
  })
})

test.each([
  [401, "refuses this server's key or account"],
  [402, 'has no budget left'],
])('a %i of the provider does not advise to retry', async (status, advice) => {
  const vendor = createServer((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end('{"error":{"message":"no"}}')
  })
  const own = await inFrontOf(vendor)
  const { page } = await openPage(browser, own)
  await ask(page)
  await expect.poll(() => page.locator('.notice.error').count()).toBe(1)
  const text = await page.locator('.notice.error').innerText()
  expect(text).toContain(advice)
  expect(text).toContain('choose a model of another provider')
  expect(text).not.toContain('Retry, or')
})

/** A gateway of this provider. */
async function inFrontOf(vendor: ReturnType<typeof createServer>): Promise<Gateway> {
  vendor.listen(0, '127.0.0.1')
  await once(vendor, 'listening')
  onTestFinished(() => {
    vendor.closeAllConnections()
    vendor.close()
  })
  const baseUrl = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}/v1`
  return started({ providers: { 'openai-compatible': { baseUrl, models: ['m'] } } })
}
