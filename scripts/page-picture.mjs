// Takes the picture of the page for the README, docs/page.png, of a real gateway in a real Chromium.
//
//     npm run build && node scripts/page-picture.mjs
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { findChromium } from './find-chromium.mjs'
import { installTestClients } from './install-test-clients.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const clients = join(root, 'packages/turnstream/test/clients/browser/')
const PROMPT = 'Is it worth going from Lisbon to Porto tomorrow?'

installTestClients(clients)
/** @type {import('../packages/turnstream/test/browser/playwright.ts').Playwright} */
const { chromium } = createRequire(clients)('playwright-core')
const folder = mkdtempSync(join(tmpdir(), 'turnstream-page-picture-'))
const args = ['serve', '--port', '0', '--store', 'memory', '--scripted-speed', '0']
const server = spawn(
  process.execPath,
  [join(root, 'packages/turnstream/dist/cli/main.js'), ...args],
  { cwd: folder },
)
const { file, env } = findChromium()
const browser = await chromium.launch({
  executablePath: file,
  args: ['--no-sandbox', '--disable-gpu'],
  ignoreDefaultArgs: [],
  env: { ...process.env, ...env },
})
try {
  const page = await (await browser.newContext()).newPage()
  await page.setViewportSize({ width: 880, height: 800 })
  await page.goto(await address())
  await page.evaluate(() => localStorage.setItem('turnstream.model', 'scripted/tools'))
  await page.reload()
  await page.locator('#composer').fill(PROMPT)
  await page.locator('#composer').press('Enter')
  await page.locator('.turn.settled footer').click()
  await page.screenshot({ path: join(root, 'docs/page.png') })
} finally {
  await browser.close()
  server.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
}

/** @returns {Promise<string>} */
async function address() {
  for await (const line of createInterface({ input: server.stdout })) {
    const [, url] = /^turnstream listening on (\S+)/.exec(line) ?? []
    if (url !== undefined) return url
  }
  throw new Error('the gateway did not start')
}
