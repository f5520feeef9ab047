/**
 * What models write, on the page that the gateway serves.
 *
 * @module-tag slow
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BEGINNING, ENDING } from '../clients/chat-vendor.ts'
import { useBrowser } from './browser.ts'
import { Gateway } from './gateway.ts'
import { answers, ask, checkAnswer, faultsOf, openPage } from './page.ts'
import type { Page } from './playwright.ts'
import { longestTask, TRACE_CATEGORIES } from './tasks.ts'

const browser = useBrowser()

let gateway: Gateway
let scripted: Gateway

beforeAll(async () => {
  gateway = await new Gateway().start({ heartbeat: '1s' })
  scripted = await new Gateway().start({ providers: {}, scriptedSpeed: 0 })
})
afterAll(() => Promise.all([gateway.close(), scripted.close()]))

/** Shows an answer of this text, and returns when it is complete. */
async function show(text: string): Promise<Page> {
  const { page } = await openPage(browser, gateway)
  const prompt = await ask(page)
  await checkAnswer(page, BEGINNING)
  gateway.vendor.say(prompt, `\n\n${text}\n\n`)
  gateway.vendor.finish(prompt)
  await expect.poll(() => page.locator('.turn.settled').count()).toBe(1)
  return page
}

test.each([
  ['quotes', '>'.repeat(5000)],
  ['lists', '1. '.repeat(6000)],
])('a line of nested %s does not break its conversation', async (_name, text) => {
  const page = await show(text)
  await page.reload()
  await expect.poll(() => answers(page)).toEqual([expect.stringContaining(ENDING.trim())])
  await ask(page, 'Next')
  await expect.poll(() => page.locator('.turn').count()).toBe(2)
})

test('code that is hard to highlight does not hold the page', async () => {
  const fence = '```'
  const page = await show(`${fence}ts\n${'a'.repeat(40_000)}\nconst b = 1\n${fence}`)
  const isHighlighted = () => page.locator('.code .hljs-keyword').count()
  await expect.poll(isHighlighted, { timeout: 60_000 }).toBe(1)
  await browser.browser().startTracing(page, { categories: TRACE_CATEGORIES })
  await page.reload()
  await expect.poll(isHighlighted, { timeout: 60_000 }).toBe(1)
  const { cpuMs } = longestTask(await browser.browser().stopTracing())
  // All of it at once takes seconds.
  expect(cpuMs).toBeLessThan(600)
})

test('text and tools stand in the order in which they were said', async () => {
  const { page } = await openPage(browser, scripted)
  await page.getByRole('button', { name: /Approve a tool/ }).click()
  await page.getByRole('button', { name: 'Approve' }).click()
  await expect.poll(() => page.locator('.turn.settled').count()).toBe(1)
  const parts = () =>
    page.evaluate(() =>
      Array.from(document.querySelectorAll('.turn > .answer, .turn > .card'), (part) =>
        part.textContent?.slice(0, 20),
      ),
    )
  const order = [
    'I send a postcard if',
    expect.stringContaining('send_postcard'),
    expect.any(String),
  ]
  expect(await parts()).toEqual(order)
  await page.reload()
  await expect.poll(parts).toEqual(order)
})

test('TeX is shown as it was written', async () => {
  const page = await show('So \\(a_1 * b_2 * c\\), and\n\\[\nx\n= \\frac{1}{2}\n\\]\nholds.')
  const formulas = await page.locator('.math').allInnerTexts()
  expect(formulas).toEqual(['\\(a_1 * b_2 * c\\)', '\\[\nx\n= \\frac{1}{2}\n\\]'])
  expect(await page.locator('.answer em').count()).toBe(0)
})

test('tables are aligned, and every text has its own direction', async () => {
  const page = await show('|a|b|c|d|\n|:-|:-:|-:|-|\n|1|2|3|4|\n\nשלום עולם\n\n- ערך\n\n> ציטוט')
  const { aligned, directions } = await page.evaluate(() => {
    const style = (selector: string) =>
      Array.from(document.querySelectorAll(`.answer ${selector}`), (element) =>
        getComputedStyle(element),
      )
    return {
      aligned: style('td').map(({ textAlign }) => textAlign),
      directions: ['p', 'ul', 'li', 'blockquote'].map(
        (name) => style(name).map(({ direction }) => direction)[name === 'p' ? 1 : 0],
      ),
    }
  })
  expect(aligned).toEqual(['left', 'center', 'right', 'start'])
  expect(directions).toEqual(['rtl', 'rtl', 'rtl', 'rtl'])
})

test('tasks have labels, and no level of headings is left out', async () => {
  const page = await show(
    '### Third\n\n##### Fifth\n\n# First\n\n> #### In a quote\n\n- [x] done\n- [ ] to **do**\n  - more',
  )
  const boxes = await page.evaluate(() =>
    Array.from(
      document.querySelectorAll<HTMLInputElement>('.task input'),
      ({ labels, checked }) => [labels?.[0]?.textContent?.trim(), checked],
    ),
  )
  expect(boxes).toEqual([
    ['done', true],
    ['to do', false],
  ])
  const headings = await page.evaluate(() =>
    Array.from(document.querySelectorAll('.answer :is(h1, h2, h3, h4, h5, h6)'), (each) => [
      each.tagName,
      each.textContent,
    ]),
  )
  expect(headings).toEqual([
    ['H2', 'Third'],
    ['H3', 'Fifth'],
    ['H2', 'First'],
  ])
  expect(await faultsOf(page)).toEqual([])
})

test.each([
  ['list of 3,000 items', '- an item with **bold** words\n'.repeat(3000), 'li', 3000],
  ['list of 60 lists of 50 items', `- a\n${'  - b\n'.repeat(49)}`.repeat(60), 'li', 3000],
  ['quote of 60 lists', `> x\n>\n${'> - b\n'.repeat(50)}>\n`.repeat(60), 'li', 3000],
  [
    'table of 1,500 rows',
    `|a|b|c|\n|-|-|-|\n${'|one|*two*|three|\n'.repeat(1500)}`,
    'tbody tr',
    1500,
  ],
])('a %s is rendered in slices', async (_name, text, selector, parts) => {
  const page = await show(text)
  const count = () => page.locator(`.answer ${selector}`).count()
  await expect.poll(count, { timeout: 30_000 }).toBe(parts)
  await page.addInitScript(() => {
    const largest = { li: 0, tr: 0 }
    Object.assign(globalThis, { largest })
    new MutationObserver((records) => {
      const added = new Set(
        records
          .flatMap(({ addedNodes }) => Array.from(addedNodes))
          .filter((node) => node instanceof Element)
          .flatMap((each) => [each, ...each.querySelectorAll('*')])
          .filter((each) => each.closest('.answer') !== null),
      )
      for (const name of ['li', 'tr'] as const) {
        const count = Array.from(added).filter((each) => each.matches(name)).length
        largest[name] = Math.max(largest[name], count)
      }
    }).observe(document, { subtree: true, childList: true })
  })
  await browser.browser().startTracing(page, { categories: TRACE_CATEGORIES })
  await page.reload()
  await expect.poll(count, { timeout: 30_000 }).toBe(parts)
  const { cpuMs } = longestTask(await browser.browser().stopTracing())
  const largest = await page.evaluate(
    () => (globalThis as unknown as { largest: { li: number; tr: number } }).largest,
  )
  // With the head of the table.
  expect(Math.max(largest.li, largest.tr)).toBeLessThanOrEqual(101)
  expect(cpuMs).toBeLessThan(300)
})
