/** A real Chromium for the tests of a file. Every test gets a context of its own. */
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, vi } from 'vitest'
import { type Chromium, findChromium, NPM_BROWSER } from '../../../../scripts/find-chromium.mjs'
import { installTestClients } from '../../../../scripts/install-test-clients.mjs'
import type { Browser, BrowserContext, Playwright } from './playwright.ts'

const PACKAGE = fileURLToPath(new URL('../clients/browser/', import.meta.url))

/** Two downloads from npm, in the worst case. */
const INSTALL_MS = 400_000

const ARGUMENTS = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** Playwright switches off how browsers treat tabs that nobody looks at, which is what we test. */
const UNWANTED_ARGUMENTS = [
  '--disable-back-forward-cache',
  '--disable-background-timer-throttling',
  '--disable-backgrounding-occluded-windows',
  '--disable-renderer-backgrounding',
]

/** Installs what is missing. Throws a sentence that says what to do when there is no browser. */
export function launchBrowser({ file, env }: Chromium = findChromium()): Promise<Browser> {
  installTestClients(PACKAGE)
  const { chromium } = createRequire(PACKAGE)('playwright-core') as Playwright
  return chromium.launch({
    executablePath: file,
    args: ARGUMENTS,
    ignoreDefaultArgs: UNWANTED_ARGUMENTS,
    env: { ...process.env, ...env },
  })
}

export interface BrowserUnderTest {
  /** The browser, while tests run. */
  readonly browser: () => Browser
  /** Whether it is more than the headless shell of npm, which has no back/forward cache. */
  readonly isFull: () => boolean
  /** An empty profile, closed with the test. A test fails when a page of it throws. */
  readonly newContext: () => Promise<BrowserContext>
}

/** Call it once in a file: it launches before the first test and closes after the last. */
export function useBrowser(): BrowserUnderTest {
  vi.setConfig({ testTimeout: 60_000 })
  let launched: Browser | undefined
  let isFull = false
  const errors: string[] = []
  beforeAll(async () => {
    const chromium = findChromium()
    isFull = !chromium.file.startsWith(NPM_BROWSER)
    launched = await launchBrowser(chromium)
  }, INSTALL_MS)
  afterAll(() => launched?.close())
  afterEach(() => {
    expect(errors.splice(0), 'errors of pages').toEqual([])
  })

  function browser(): Browser {
    if (launched === undefined) throw new Error('the browser is not launched yet')
    return launched
  }

  async function newContext(): Promise<BrowserContext> {
    const context = await browser().newContext()
    onTestFinished(() => context.close())
    context.on('page', (page) => {
      page.on('pageerror', (error) => errors.push(error.stack ?? error.message))
    })
    return context
  }

  return { browser, isFull: () => isFull, newContext }
}
