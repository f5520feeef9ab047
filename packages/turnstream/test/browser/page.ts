/** The page that the gateway serves, as tests use it. */
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { BrowserUnderTest } from './browser.ts'
import type { Gateway } from './gateway.ts'
import type { BrowserContext, Page } from './playwright.ts'

/** Opens a tab. What the policy of the page refuses is collected. */
export async function openTab(context: BrowserContext, url: string): Promise<Page> {
  const page = await context.newPage()
  await page.addInitScript(() => {
    const found: string[] = []
    Object.assign(globalThis, { refused: found })
    addEventListener('securitypolicyviolation', (event) => {
      found.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`)
    })
  })
  await page.goto(url)
  return page
}

/** Opens a tab of an empty profile. */
export async function openPage(
  { newContext }: BrowserUnderTest,
  gateway: Gateway,
): Promise<{ context: BrowserContext; page: Page }> {
  const context = await newContext()
  return { context, page: await openTab(context, `${gateway.url}/`) }
}

export function refusedOn(page: Page): Promise<readonly string[]> {
  return page.evaluate(() => (globalThis as unknown as { refused: string[] }).refused)
}

let prompts = 0

/** Sends a prompt that was not used before, so that the vendor's answers are told apart. */
export async function ask(page: Page, text = 'Prompt'): Promise<string> {
  prompts += 1
  const prompt = `${text} ${prompts}`
  const field = page.getByRole('textbox', { name: 'Message' })
  await field.fill(prompt)
  await field.press('Enter')
  return prompt
}

export function answers(page: Page): Promise<string[]> {
  return page.locator('.answer').allInnerTexts()
}

export async function checkAnswer(page: Page, text: string): Promise<void> {
  await expect.poll(() => answers(page)).toEqual([text])
}

const axePath = fileURLToPath(new URL('../clients/browser/', import.meta.url))

/** The rules of accessibility that the page breaks. */
export async function faultsOf(page: Page): Promise<string[]> {
  const { source } = createRequire(axePath)('axe-core') as { source: string }
  // As a debugger would: the policy of the page allows no script of ours.
  const session = await page.context().newCDPSession(page)
  await session.send('Runtime.evaluate', { expression: source })
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> }
    }
    const { violations } = await axe.run()
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
  })
}
