import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { docsPage, docsPages, prose } from '../../src/server/docs-page.ts'
import type { OpenApiDocument, Operation } from '../../src/server/openapi.ts'
import { SECURITY_SCHEMES } from '../../src/server/routes/spec.ts'
import { call, startServer } from './support.ts'
import { ask } from './web/browser.ts'

describe('the docs page', () => {
  test('lists every route with a command to try, and every schema', async () => {
    const server = await startServer()
    const { json: page } = await call(server, 'GET /docs')
    for (const [path, methods] of Object.entries(server.document.paths)) {
      for (const { operationId, summary } of Object.values(methods)) {
        expect(page).toContain(`<section id="${operationId}">`)
        expect(page).toContain(`<strong>${summary}.</strong>`)
        expect(page).toContain(`<code>${path}</code></h3>`)
      }
    }
    for (const name of Object.keys(server.document.components.schemas)) {
      expect(page).toContain(`<section id="schema-${name}">`)
    }
    expect(page).toContain(
      `curl ${server.url}/api/v2/submit -H &#39;content-type: application/json&#39; -d &#39;{&quot;prompt&quot;:&quot;Hello&quot;}&#39;`,
    )
    expect(page).toContain(`curl -N ${server.url}/api/v2/stream/RUN_ID`)
    expect(page).toContain(`curl -X DELETE ${server.url}/api/v2/threads/THREAD_ID`)
  })

  test('marks routes that need no key and those that accept a token', async () => {
    const server = await startServer()
    const { json } = await call(server, 'GET /docs')
    const sections = [...(json as string).matchAll(/<section id="(\w+)">.*?<\/section>/gs)]
    const saying = (text: string) =>
      sections.flatMap(([section, name]) => (section.includes(text) ? [name] : []))
    expect(saying('No key required.')).toEqual([
      'getHealth',
      'getHello',
      'getReady',
      'getOpenapi',
      'getDocs',
    ])
    expect(saying('Also accepts a stream token')).toEqual([
      'getRunStream',
      'getTurnOutputStream',
      'getThreadOutputStream',
      'getOutputStreams',
    ])
  })

  test('has no broken internal links', async () => {
    const { json: page } = await call(await startServer(), 'GET /docs')
    const links = [...(page as string).matchAll(/href="#([^"]+)"/g)].map(([, id]) => id)
    const ids = [...(page as string).matchAll(/id="([^"]+)"/g)].map(([, id]) => id)
    expect(links.length).toBeGreaterThan(20)
    expect(links.filter((id) => !ids.includes(id))).toEqual([])
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('loads and runs no scripts, and has a policy against them', async () => {
    const { headers, json: page } = await call(await startServer(), 'GET /docs')
    expect(page).not.toMatch(/<script|<link|<img|@import|url\(|https?:\/\/(?!127\.0\.0\.1)/)
    const style = /<style>(.*?)<\/style>/s.exec(page as string)?.[1] ?? ''
    const hash = createHash('sha256').update(style).digest('base64')
    const policy = headers.get('content-security-policy')
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain(`style-src 'sha256-${hash}'`)
    expect(policy).not.toContain('unsafe')
  })

  test('uses the URL it was requested at', async () => {
    const { url } = await startServer()
    for (const host of ['turns.example', 'localhost:4010', '[::1]:80']) {
      const { text } = await ask(`${url}/docs`, { headers: { host } })
      const shown = new URL(`http://${host}`).origin
      expect(text).toContain(`curl -N ${shown}/api/v2/stream/RUN_ID`)
      expect(text).not.toContain('\0')
    }
  })

  test('escapes the URL, also in the cached page', async () => {
    const { document } = await startServer()
    const page = docsPages(document)('http://<img src=x>"&')
    expect(page).not.toContain('<img')
    expect(page).toContain('curl -N http://&lt;img src=x&gt;&quot;&amp;/api/v2/stream/RUN_ID')
    expect(docsPages(document)('http://a')).toBe(docsPage(document, 'http://a'))
  })

  test('has a light and a dark theme', async () => {
    const { json: page } = await call(await startServer(), 'GET /docs')
    expect(page).toContain('prefers-color-scheme: dark')
    expect(page).toContain('<meta name="color-scheme" content="light dark">')
  })

  test('escapes everything in the description', () => {
    const evil = '<img src=x onerror=alert(1)>"\'&'
    const optional = { in: 'query', required: false, description: undefined } as const
    const operation: Operation = {
      ...{ operationId: evil, summary: evil, description: `\`${evil}\``, tags: [evil] },
      security: [],
      parameters: [
        { name: evil, in: 'query', required: true, description: evil, schema: { type: evil } },
        { ...optional, name: 'a', schema: { type: 'integer', minimum: 1 } },
        { ...optional, name: 'b', schema: { type: 'integer', maximum: 9 } },
        { ...optional, name: 'c', schema: { default: evil, maxLength: 5000 } },
      ],
      requestBody: { required: true, content: { [evil]: { schema: { enum: [evil] } } } },
      responses: {
        [evil]: {
          ...{ description: evil, headers: undefined },
          content: { [evil]: { schema: { const: evil } } },
        },
      },
    }
    const document: OpenApiDocument = {
      openapi: '3.1.0',
      info: { title: evil, version: evil, description: evil },
      paths: { [evil]: { [evil]: operation } },
      components: {
        securitySchemes: SECURITY_SCHEMES,
        schemas: { [evil]: { description: evil, properties: { [evil]: {} } } },
      },
    }
    const page = docsPage(document, `http://${evil}`)
    expect(page).not.toContain('<img')
    expect(page).toContain('&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;')
    for (const text of ['integer from 1', 'integer to 9', 'anything up to 5,000 characters']) {
      expect(page).toContain(text)
    }
  })
})

test('formats backquotes as code and escapes it', () => {
  expect(String(prose('a `<b>` c'))).toBe('a <code>&lt;b&gt;</code> c')
})
