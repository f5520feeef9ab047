/**
 * The browsers that tests run in.
 *
 * @module-tag slow
 */
import { existsSync, readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { findChromium, NPM_BROWSER } from '../../../../scripts/find-chromium.mjs'
import { eventually } from '../../../../test/eventually.ts'
import { launchBrowser } from './browser.ts'
import type { Browser } from './playwright.ts'

const INSTALL_MS = 400_000

interface Processes {
  readonly processInfo: readonly { readonly type: string; readonly id: number }[]
}

/** The processes of a browser, and the folder of its profile. */
async function inspect(browser: Browser) {
  const session = await browser.newBrowserCDPSession()
  const { processInfo } = (await session.send('SystemInfo.getProcessInfo')) as Processes
  const main = processInfo.find(({ type }) => type === 'browser')
  const command = readFileSync(`/proc/${main?.id}/cmdline`, 'utf8')
  const [, profile = ''] = /--user-data-dir=([^\0]+)/.exec(command) ?? []
  return { pids: processInfo.map(({ id }) => id), profile }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const isLinux = process.platform === 'linux'

test.runIf(isLinux)(
  'a browser leaves no process and no profile behind',
  async () => {
    const browser = await launchBrowser()
    onTestFinished(() => browser.close())
    await (await browser.newContext()).newPage()
    const { pids, profile } = await inspect(browser)
    expect(pids.length).toBeGreaterThan(1)
    expect(existsSync(profile)).toBe(true)
    await browser.close()
    await eventually(() => expect(pids.filter(isAlive)).toEqual([]))
    expect(existsSync(profile)).toBe(false)
  },
  INSTALL_MS,
)

test.runIf(isLinux)(
  'a machine without a browser gets one from npm',
  async () => {
    const chromium = findChromium({ file: '', path: '' })
    expect(chromium.file).toContain(NPM_BROWSER)
    const browser = await launchBrowser(chromium)
    onTestFinished(() => browser.close())
    const page = await (await browser.newContext()).newPage()
    await page.goto('data:text/html,<p>Hello</p><textarea></textarea>')
    // Without a font it would end here.
    const width = await page.evaluate(() => {
      const range = document.createRange()
      range.selectNodeContents(document.body)
      return range.getBoundingClientRect().width
    })
    expect(width).toBeGreaterThan(0)
  },
  INSTALL_MS,
)
