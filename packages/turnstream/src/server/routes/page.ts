import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import type { Context } from 'hono'
import type { GatewayApp, GatewayEnv } from '../context.ts'
import { once } from '../once.ts'

const FOLDER = fileURLToPath(new URL('../../../dist/web/', import.meta.url))

/** Nothing comes from other hosts, and no text ever becomes a script or markup. */
export const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Names of assets contain a hash of their content. */
const FOR_EVER = 'public, max-age=31536000, immutable'
const CHECK_FIRST = 'no-cache'

interface File {
  readonly bytes: Buffer<ArrayBuffer>
  readonly zipped: Buffer<ArrayBuffer>
  readonly type: string
  readonly etag: string
}

/** Serves the chat page at `/` and the inspector at `/inspect`. Without it, `/` leads to the docs. */
export function addPageRoutes(app: GatewayApp, { hasPage }: { readonly hasPage: boolean }): void {
  if (!hasPage || !existsSync(FOLDER)) {
    // Relative, because the gateway may be mounted under a prefix.
    app.get('/', (c) => c.redirect(ROUTES.docs.slice(1)))
    return
  }
  const names = readdirSync(FOLDER, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(FOLDER, join(parentPath, name)))
  for (const name of names.filter((each) => extname(each) !== '.html')) {
    const caching = name.startsWith('assets/') ? FOR_EVER : CHECK_FIRST
    const file = once(() => toFile(name, readFileSync(FOLDER + name)))
    app.get(`/${name}`, (c) => sendFile(c, file(), caching))
  }
  const html = once(() => readFileSync(`${FOLDER}index.html`, 'utf8'))
  const addPage = (base: string, ...paths: string[]) => {
    const text = () => html().replace('<base href="./"', `<base href="${base}"`)
    const file = once(() => toFile('index.html', Buffer.from(text())))
    for (const path of paths) app.get(path, (c) => sendFile(c, file(), CHECK_FIRST))
  }
  addPage('./', '/', '/inspect')
  addPage('../', '/inspect/:turnId')
}

/** Whether a path belongs to the page. It holds no data of tenants, so it needs no key. */
export function isPagePath(path: string): boolean {
  return /^\/(?:|icon\.svg|inspect|(?:assets|inspect)\/[^/]+)$/.test(path)
}

function toFile(name: string, bytes: Buffer<ArrayBuffer>): File {
  return {
    bytes,
    zipped: gzipSync(bytes, { level: 9 }),
    type: TYPES[extname(name)] ?? 'application/octet-stream',
    etag: `"${createHash('sha256').update(bytes).digest('base64url')}"`,
  }
}

function sendFile(c: Context<GatewayEnv>, file: File, caching: string): Response {
  c.header('cache-control', caching)
  c.header('content-security-policy', PAGE_POLICY)
  c.header('etag', file.etag)
  c.header('vary', 'accept-encoding', { append: true })
  if (c.req.header('if-none-match') === file.etag) return c.body(null, 304)
  c.header('content-type', file.type)
  const isZipped = /\bgzip\b/.test(c.req.header('accept-encoding') ?? '')
  if (isZipped) c.header('content-encoding', 'gzip')
  return c.body(isZipped ? file.zipped : file.bytes)
}
