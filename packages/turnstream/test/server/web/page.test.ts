import { once } from 'node:events'
import { get } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { Hono } from 'hono'
import { expect, test } from 'vitest'
import { PAGE_POLICY } from '../../../src/server/routes/page.ts'
import { startServer } from '../support.ts'
import { ask } from './browser.ts'

const SECURE = {
  'content-security-policy': PAGE_POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'x-frame-options': 'DENY',
}

/** Addresses that the page loads, relative to itself. */
function assetsOf(html: string): string[] {
  return Array.from(html.matchAll(/(?:src|href)="\.\/([^"]+)"/g), ([, path = '']) => path)
}

async function text(url: string): Promise<string> {
  return await (await fetch(url)).text()
}

test('the page and all that it loads have a policy and come from here', async () => {
  const { url } = await startServer()
  const html = await text(`${url}/`)
  const assets = assetsOf(html)
  expect(assets.map((path) => path.replace(/-[\w-]+\./, '.'))).toEqual([
    'icon.svg',
    'assets/index.js',
    'assets/index.css',
  ])
  for (const path of ['', 'inspect/turn', ...assets]) {
    const got = await ask(`${url}/${path}`)
    expect([path, got.status, got.headers]).toEqual([path, 200, expect.objectContaining(SECURE)])
    expect([path, got.headers['set-cookie']]).toEqual([path, undefined])
  }
  expect(html).not.toMatch(/https?:|<script>|style=/)
})

test('its parts are kept for ever, the page itself is checked first', async () => {
  const { url } = await startServer()
  const [, script = ''] = assetsOf(await text(`${url}/`))
  const caching = async (path: string) => (await ask(`${url}/${path}`)).headers['cache-control']
  expect(await caching(script)).toBe('public, max-age=31536000, immutable')
  expect([await caching(''), await caching('inspect/turn')]).toEqual(['no-cache', 'no-cache'])
})

test('an unchanged page is not sent again', async () => {
  const { url } = await startServer()
  const { etag = '' } = (await ask(`${url}/`)).headers
  const again = await ask(`${url}/`, { headers: { 'if-none-match': etag } })
  expect([again.status, again.text]).toEqual([304, ''])
  expect((await ask(`${url}/`, { headers: { 'if-none-match': '"other"' } })).status).toBe(200)
})

test('the page is compressed for those who accept it', async () => {
  const { url } = await startServer()
  const [, script = ''] = assetsOf(await text(`${url}/`))
  const plain = await fetch(`${url}/${script}`, { headers: { 'accept-encoding': 'identity' } })
  expect(plain.headers.get('content-encoding')).toBeNull()
  const [zipped] = await once(
    get(`${url}/${script}`, { headers: { 'accept-encoding': 'br, gzip' } }),
    'response',
  )
  expect([zipped.headers['content-encoding'], zipped.headers['vary']]).toEqual([
    ...['gzip', 'accept-encoding'],
  ])
  expect(gunzipSync(Buffer.concat(await zipped.toArray())).toString()).toBe(await plain.text())
})

test('the inspector finds its parts one level up', async () => {
  const { url } = await startServer()
  expect(await text(`${url}/`)).toContain('<base href="./"')
  expect(await text(`${url}/inspect/some%2Fturn`)).toContain('<base href="../"')
})

test('it works below a prefix', async () => {
  const { gateway } = await startServer()
  const app = new Hono().mount('/llm', (request) => gateway.app.fetch(request))
  const html = await (await app.request('http://host/llm/')).text()
  for (const path of assetsOf(html)) {
    expect([path, (await app.request(`http://host/llm/${path}`)).status]).toEqual([path, 200])
  }
})

test('without the page there are no parts of it', async () => {
  const { url } = await startServer({ page: false })
  for (const path of ['icon.svg', 'inspect/turn']) {
    expect([path, (await ask(`${url}/${path}`)).status]).toEqual([path, 404])
  }
})
