/**
 * The page that the gateway serves, by keyboard, mouse and touch.
 *
 * @module-tag slow
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BEGINNING } from '../clients/chat-vendor.ts'
import { useBrowser } from './browser.ts'
import { Gateway } from './gateway.ts'
import { ask, checkAnswer, openPage } from './page.ts'
import type { Page } from './playwright.ts'

const browser = useBrowser()

let vendor: Gateway
let scripted: Gateway

beforeAll(async () => {
  vendor = await new Gateway().start({ heartbeat: '1s' })
  scripted = await new Gateway().start({ providers: {}, scriptedSpeed: 0 })
})
afterAll(() => Promise.all([vendor.close(), scripted.close()]))

const focused = (page: Page) =>
  page.evaluate(() => {
    const { id, tagName, className } = document.activeElement ?? document.body
    return id || className || tagName
  })

async function answering() {
  const { page } = await openPage(browser, vendor)
  const prompt = await ask(page)
  await checkAnswer(page, BEGINNING)
  return { page, prompt }
}

async function checkStopped(page: Page): Promise<void> {
  await expect.poll(() => page.locator('.notice').allInnerTexts()).toEqual(['Stopped.'])
}

describe('Escape', () => {
  test('stops the first answer, because the focus stays in the field', async () => {
    const { page } = await answering()
    expect(await focused(page)).toBe('composer')
    await page.keyboard.press('Escape')
    await checkStopped(page)
    expect(await focused(page)).toBe('composer')
  })

  test('stops an answer when the focus is nowhere', async () => {
    const { page } = await answering()
    await page.evaluate(() => (document.activeElement as HTMLElement).blur())
    await page.keyboard.press('Escape')
    await checkStopped(page)
  })

  test('leaves editing, and keeps the answer that is written', async () => {
    const { page, prompt } = await answering()
    vendor.vendor.finish(prompt)
    await expect.poll(() => page.locator('.turn.settled').count()).toBe(1)
    await ask(page)
    await expect.poll(() => page.locator('.answer').count()).toBe(2)
    await page.getByRole('button', { name: 'Edit' }).first().click()
    const field = page.getByRole('textbox', { name: 'Edited message' })
    await expect.poll(() => focused(page)).toBe('TEXTAREA')
    await page.keyboard.press('Escape')
    await expect.poll(() => field.count()).toBe(0)
    await expect.poll(() => focused(page)).toBe('quiet')
    expect(await page.locator('.notice').count()).toBe(0)
    expect(await page.getByRole('button', { name: 'Stop' }).count()).toBe(1)
  })

  test('closes a question, and does not stop', async () => {
    const { page } = await answering()
    await page.locator('nav li.current').getByRole('button').last().click()
    await expect.poll(() => page.locator('dialog[open]').count()).toBe(1)
    await page.keyboard.press('Escape')
    await expect.poll(() => page.locator('dialog[open]').count()).toBe(0)
    expect(await page.getByRole('button', { name: 'Stop' }).count()).toBe(1)
  })
})

test('the arrow keys work after Play was clicked', async () => {
  const { page } = await openPage(browser, scripted)
  await page.getByRole('button', { name: /See it think/ }).click()
  await expect.poll(() => page.locator('.turn.settled').count()).toBe(1)
  const address = await page.locator('.turn footer a').first().getAttribute('href')
  await page.goto(`${scripted.url}/${address}#3`)
  const events = () => page.locator('.totals div:nth-child(2) dd').innerText()
  await expect.poll(events).toMatch(/^3 of /)
  await page.getByRole('button', { name: 'Play' }).click()
  await expect.poll(events).toMatch(/^(\d+) of \1$/)
  await expect.poll(() => page.getByRole('button', { name: 'Play' }).count()).toBe(1)
  await page.keyboard.press('Home')
  await expect.poll(events).toMatch(/^1 of /)
  await page.keyboard.press('ArrowRight')
  await expect.poll(events).toMatch(/^2 of /)
  // Space still presses the button, once.
  await page.keyboard.press(' ')
  await expect.poll(events).toMatch(/^(\d+) of \1$/)
})

/** The elements that Tab reaches whose focus ring is cut off, of all that it reaches. */
async function clippedRings(page: Page): Promise<{ clipped: string[]; reached: number }> {
  const clipped: string[] = []
  const reached = new Set<string>()
  for (let count = 0; count < 60; count++) {
    await page.keyboard.press('Tab')
    const { name, cutBy } = await page.evaluate(() => {
      const element = document.activeElement ?? document.body
      const { outlineOffset, outlineWidth } = getComputedStyle(element)
      const width = Number.parseFloat(outlineOffset) + Number.parseFloat(outlineWidth)
      const ring = element.getBoundingClientRect()
      let cutter = ''
      for (let box = element.parentElement; box; box = box.parentElement) {
        const style = getComputedStyle(box)
        if (style.overflow === 'visible' && style.contentVisibility !== 'auto') continue
        const { left, right, top, bottom } = box.getBoundingClientRect()
        const isCut =
          ring.left - width < left - 0.5 ||
          ring.right + width > right + 0.5 ||
          ring.top - width < top - 0.5 ||
          ring.bottom + width > bottom + 0.5
        if (isCut && width > 0) cutter ||= box.className
      }
      return { name: element.outerHTML.slice(0, 100), cutBy: cutter }
    })
    if (name.startsWith('<body')) break
    reached.add(name)
    if (cutBy !== '') clipped.push(`${name} by ${cutBy}`)
  }
  return { clipped, reached: reached.size }
}

test('no focus ring is cut off', async () => {
  const { page } = await openPage(browser, scripted)
  await page.getByRole('button', { name: /See it think/ }).click()
  await expect.poll(() => page.locator('.turn.settled').count()).toBe(1)
  await page.evaluate(() => document.querySelector<HTMLElement>('.skip')?.focus())
  const chat = await clippedRings(page)
  expect(chat.clipped).toEqual([])
  expect(chat.reached).toBeGreaterThan(12)
  await page.getByRole('link', { name: /^Inspect$/ }).click()
  await expect.poll(() => page.locator('.beside .connection').innerText()).toBe('Complete')
  await page.evaluate(() => document.querySelector<HTMLElement>('.beside button')?.focus())
  const inspector = await clippedRings(page)
  expect(inspector.clipped).toEqual([])
  expect(inspector.reached).toBeGreaterThan(12)
})

test('a selection stays while the text grows', async () => {
  const { page, prompt } = await answering()
  await page.evaluate(() => {
    const texts = document.createTreeWalker(
      document.querySelector('.answer') as Element,
      NodeFilter.SHOW_TEXT,
    )
    const text = texts.nextNode() as Text
    getSelection()?.setBaseAndExtent(text, 2, text, 11)
  })
  const selected = () => page.evaluate(() => String(getSelection()))
  const before = await selected()
  expect(before).toBe('beginning')
  for (const part of [' and more', ' with **bold', ' words** and `code`', '\n\nA paragraph']) {
    const shown = await page.locator('.answer').innerText()
    vendor.vendor.say(prompt, `${part} ${'and so on '.repeat(40)}`)
    await expect.poll(() => page.locator('.answer').innerText()).not.toBe(shown)
    expect(await selected()).toBe(before)
  }
  vendor.vendor.finish(prompt)
  await expect.poll(() => page.locator('.turn.settled').count()).toBe(1)
  expect(await selected()).toBe(before)
})

test('on touch screens everything is visible without hovering', async () => {
  const { context, page } = await openPage(browser, scripted)
  await page.getByRole('button', { name: /See it think/ }).click()
  await expect.poll(() => page.locator('.turn.settled').count()).toBe(1)
  await page.setViewportSize({ width: 1024, height: 768 })
  const session = await context.newCDPSession(page)
  await session.send('Emulation.setDeviceMetricsOverride', {
    ...{ width: 1024, height: 768, deviceScaleFactor: 1, mobile: true },
  })
  await session.send('Emulation.setTouchEmulationEnabled', { enabled: true })
  expect(await page.evaluate(() => matchMedia('(hover: none)').matches)).toBe(true)
  const opacities = await page.evaluate(() =>
    ['.prompt .quiet', '.sidebar li:last-child .row-actions'].map((selector) => {
      const element = document.querySelector(selector)
      return element === null ? selector : getComputedStyle(element).opacity
    }),
  )
  expect(opacities).toEqual(['1', '1'])
})

test('"Show earlier messages" leaves the reader where they are', async () => {
  const { page } = await openPage(browser, scripted)
  const threadId = 'many-turns'
  for (let count = 1; count <= 30; count++) {
    const response = await fetch(`${scripted.url}/api/v2/submit`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ threadId, turnId: `many-${count}`, prompt: `Number ${count}` }),
    })
    expect(response.status).toBe(202)
    await fetch(`${scripted.url}/xapi/turns/many-${count}/stream`).then((each) => each.text())
  }
  await page.goto(`${scripted.url}/?thread=${threadId}`)
  await expect.poll(() => page.locator('.turn.settled').count()).toBe(20)
  const topOf = (prompt: string) =>
    page.evaluate((text) => {
      const found = Array.from(document.querySelectorAll('.prompt > p')).find(
        ({ textContent }) => textContent === text,
      )
      return Math.round(found?.getBoundingClientRect().top ?? -1)
    }, prompt)
  await page.evaluate(() => document.querySelector('.scroller')?.scrollTo(0, 0))
  await expect.poll(() => topOf('Number 11')).toBeGreaterThan(0)
  const before = await topOf('Number 11')
  await page.getByRole('button', { name: 'Show earlier messages' }).click()
  await expect.poll(() => page.locator('.turn.settled').count()).toBe(30)
  await page.evaluate(() => new Promise(requestAnimationFrame))
  // The button was above it, and is gone.
  expect(Math.abs((await topOf('Number 11')) - before)).toBeLessThan(4)
})
