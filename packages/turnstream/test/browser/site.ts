/** The web server of an application that uses `turnstream/client`: another origin than the gateway's. */
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { root } from '../../../../test/repository/sources.ts'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

/** Serves packages/turnstream/test/browser/site/, the built client below /dist/, and `pages` by their paths. */
export async function startSite(pages: ReadonlyMap<string, string> = new Map()) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://site')
    const file = pathname.startsWith('/dist/')
      ? join('packages/client', pathname)
      : join('packages/turnstream/test/browser/site', pathname)
    const page = pages.get(pathname)
    const read = page === undefined ? readFile(join(root, file)) : Promise.resolve(page)
    read.then(
      (content) => {
        const type = TYPES[extname(file)] ?? 'application/octet-stream'
        response.writeHead(200, { 'content-type': type }).end(content)
      },
      () => response.writeHead(404).end(),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close(): Promise<void> {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
