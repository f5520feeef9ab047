import { createRoute } from '@hono/zod-openapi'
import * as z from 'zod'
import { ROUTES } from '../../protocol/names.ts'
import type { GatewayApp } from '../context.ts'
import { DOCS_POLICY, docsPage } from '../docs-page/page.ts'
import { openapiDocument } from '../openapi.ts'
import { openapiPath } from '../schemas/parts.ts'

const openapiRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.openapi),
  summary: 'This description',
  tags: ['server'],
  responses: {
    200: {
      description: 'OpenAPI 3.1',
      content: { 'application/json': { schema: z.record(z.string(), z.unknown()) } },
    },
  },
})

const docsRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.docs),
  summary: 'This description, for people',
  tags: ['server'],
  responses: {
    200: { description: 'A page', content: { 'text/html': { schema: z.string() } } },
  },
})

/** To be called last: the document describes the routes that the app has when it is first asked for. */
export function addDocumentRoutes(app: GatewayApp): void {
  let document: ReturnType<typeof openapiDocument> | undefined
  const described = () => (document ??= openapiDocument(app))

  app.openapi(openapiRoute, (c) => c.json({ ...described() }, 200))

  app.openapi(docsRoute, (c) => {
    const { origin } = new URL(c.req.url)
    return c.html(docsPage(described(), origin), 200, { 'content-security-policy': DOCS_POLICY })
  })

  app.get('/', (c) => c.redirect(ROUTES.docs))
}
