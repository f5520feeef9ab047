/**
 * The chats of examples/ in a real Chromium: a prompt, a reload in the middle, and the same answer.
 *
 * @module-tag slow
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { read, root } from '../../../../test/repository/sources.ts'
import { BEGINNING, ENDING } from '../clients/chat-vendor.ts'
import { bundleFiles } from '../clients/ui/bundle.ts'
import { useBrowser } from './browser.ts'
import { Gateway } from './gateway.ts'
import type { Page } from './playwright.ts'
import { startSite } from './site.ts'

const { newContext } = useBrowser()

const pages = new Map<string, string>()
let site: Awaited<ReturnType<typeof startSite>>
let gateway: Gateway

beforeAll(async () => {
  site = await startSite(pages)
  gateway = await new Gateway().start({ corsOrigins: [site.url] })
})
afterAll(() => Promise.all([site.close(), gateway.close()]))

/** Longer than a step of the gradient, so that it is shown at once. */
const MORE = ', more of it than a few words so that a snapshot is due,'

/** Sends a prompt, reloads in the middle of the answer, and waits for its end. */
async function checkReload(page: Page, prompt: string): Promise<void> {
  const shown = () => page.locator('body').innerText()
  await page.locator('input').fill(prompt)
  await page.locator('input').press('Enter')
  await expect.poll(shown).toContain(BEGINNING)
  expect(await shown()).toContain(prompt)
  const reloaded = page.reload()
  gateway.vendor.say(prompt, MORE)
  await reloaded
  await expect.poll(shown).toContain(BEGINNING + MORE)
  gateway.vendor.finish(prompt)
  await expect.poll(shown).toContain(BEGINNING + MORE + ENDING)
  const text = await shown()
  expect(text.split(BEGINNING)).toHaveLength(2)
  expect(text.split(prompt)).toHaveLength(2)
}

/** Starts the backend of chat.html. */
async function startBackend(): Promise<string> {
  const child = spawn(process.execPath, ['examples/chat.mjs'], {
    cwd: root,
    env: { ...process.env, PORT: '0', TURNSTREAM_URL: gateway.url, TURNSTREAM_KEY: '' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const [line] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string]
  return /http:\S+/.exec(line)?.[0] ?? ''
}

test('chat.html continues after a reload', async () => {
  const page = await (await newContext()).newPage()
  await page.goto(await startBackend())
  await checkReload(page, 'To the page without a build')
})

test('react.tsx continues after a reload', async () => {
  const example = read('examples/react.tsx').replaceAll('http://127.0.0.1:4010', gateway.url)
  const script = await bundleFiles({
    'entry.js': `
import { createElement } from 'react'
import { createRoot } from 'react-dom/client'
import App from './example.tsx'

createRoot(document.querySelector('main')).render(createElement(App))`,
    'example.tsx': example,
  })
  pages.set('/react.js', script)
  pages.set('/react.html', '<!doctype html><main></main><script src="react.js"></script>')
  const page = await (await newContext()).newPage()
  await page.goto(`${site.url}/react.html`)
  await checkReload(page, 'To the page with React')
})
