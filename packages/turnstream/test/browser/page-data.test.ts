/**
 * What a person wrote or chose on the page that the gateway serves: nothing of it is lost by accident.
 *
 * @module-tag slow
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { useBrowser } from './browser.ts'
import { Gateway } from './gateway.ts'
import { ask, openPage, openTab } from './page.ts'
import type { Page } from './playwright.ts'

const browser = useBrowser()

let scripted: Gateway

beforeAll(async () => {
  scripted = await new Gateway().start({ providers: {}, scriptedSpeed: 0 })
})
afterAll(() => scripted.close())

async function settled(page: Page, turns: number): Promise<void> {
  await expect.poll(() => page.locator('.turn.settled').count()).toBe(turns)
}

/** A conversation of this many turns. */
async function converse(turns: number) {
  const { context, page } = await openPage(browser, scripted)
  const prompts: string[] = []
  for (let count = 1; count <= turns; count++) {
    prompts.push(await ask(page))
    await settled(page, count)
  }
  return { context, page, prompts }
}

/** Also of turns that are not rendered because they are out of sight. */
const shownPrompts = (page: Page) =>
  page.evaluate(() =>
    Array.from(document.querySelectorAll('.prompt > p'), ({ textContent }) => textContent),
  )
const field = (page: Page) => page.getByRole('textbox', { name: 'Message' })
const draftOf = (page: Page) =>
  page.evaluate(() => document.querySelector<HTMLTextAreaElement>('#composer')?.value)
const modelOf = (page: Page) =>
  page.evaluate(() => document.querySelector<HTMLSelectElement>('.model select')?.value)

test('Retry asks before it deletes later turns', async () => {
  const { page, prompts } = await converse(4)
  const dialog = page.locator('dialog[open]')
  await page.getByRole('button', { name: 'Retry' }).first().click()
  expect(await dialog.innerText()).toContain('deletes the 3 messages that follow it')
  await page.getByRole('button', { name: 'Keep' }).click()
  await expect.poll(() => dialog.count()).toBe(0)
  expect(await shownPrompts(page)).toEqual(prompts)
  await page.getByRole('button', { name: 'Retry' }).first().click()
  await page.locator('dialog[open] .danger').click()
  await expect.poll(() => shownPrompts(page)).toEqual(prompts.slice(0, 1))
  await settled(page, 1)
  // The last turn has none after it.
  await page.getByRole('button', { name: 'Retry' }).click()
  await settled(page, 1)
  expect(await dialog.count()).toBe(0)
})

test('a new title is saved as it was typed, although the list is loaded again meanwhile', async () => {
  const { context, page, prompts } = await converse(1)
  const other = await openTab(context, page.url())
  await page.bringToFront()
  await page.getByRole('button', { name: `Rename ${prompts[0]}` }).click()
  for (const part of ['One ', 'two ', 'three']) {
    await page.keyboard.type(part)
    const lists = await page.evaluate(() => performance.getEntriesByType('resource').length)
    // A new conversation in another tab.
    await other.evaluate(() => {
      const channel = new BroadcastChannel(`turnstream.threads ${document.baseURI.split('?')[0]}`)
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has one origin
      channel.postMessage(null)
      channel.close()
    })
    await expect
      .poll(() => page.evaluate(() => performance.getEntriesByType('resource').length))
      .toBeGreaterThan(lists)
  }
  await page.keyboard.press('Enter')
  const title = () => page.locator('nav li.current a').innerText()
  await expect.poll(title).toBe('One two three')
  // Escape leaves it, and does not save.
  await page.getByRole('button', { name: 'Rename One two three' }).click()
  await page.keyboard.type('Something else')
  await page.keyboard.press('Escape')
  await expect.poll(title).toBe('One two three')
  await page.reload()
  await expect.poll(title).toBe('One two three')
})

test('drafts outlive switching and reloads, each in its conversation', async () => {
  const { page } = await converse(1)
  await field(page).fill('Draft of the first')
  await page.getByRole('button', { name: 'New conversation' }).click()
  await expect.poll(() => draftOf(page)).toBe('')
  await field(page).fill('Draft of a new one')
  await page.goBack()
  await expect.poll(() => draftOf(page)).toBe('Draft of the first')
  await page.reload()
  await expect.poll(() => draftOf(page)).toBe('Draft of the first')
  await field(page).press('Enter')
  await settled(page, 2)
  await page.getByRole('button', { name: 'Edit' }).last().click()
  await page.getByRole('textbox', { name: 'Edited message' }).fill('An edited prompt')
  await page.reload()
  expect(await draftOf(page)).toBe('')
  const edited = page.getByRole('textbox', { name: 'Edited message' })
  await expect.poll(() => edited.count()).toBe(1)
  await page.getByRole('button', { name: 'Send again' }).click()
  await expect.poll(() => shownPrompts(page)).toContain('An edited prompt')
  await page.getByRole('button', { name: 'New conversation' }).click()
  await expect.poll(() => draftOf(page)).toBe('Draft of a new one')
})

test('an example does not change the model of other conversations', async () => {
  const { page } = await openPage(browser, scripted)
  await expect.poll(() => modelOf(page)).toMatch(/^scripted\//)
  const first = await modelOf(page)
  await page.getByRole('button', { name: /Watch a failure/ }).click()
  await expect.poll(() => page.locator('.notice.error').count()).toBe(1)
  // Its own conversation goes on with it.
  expect(await modelOf(page)).toBe('scripted/error')
  await page.getByRole('button', { name: 'New conversation' }).click()
  await expect.poll(() => modelOf(page)).toBe(first)
  await page.reload()
  await expect.poll(() => modelOf(page)).toBe(first)
})
