import { createRoute } from '@hono/zod-openapi'
import * as z from 'zod'
import { ROUTES } from '../../protocol/names.ts'
import type { GatewayApp } from '../context.ts'
import { DOCS_POLICY, docsPages } from '../docs-page/page.ts'
import { openapiDocument } from '../openapi.ts'
import { openapiPath } from '../schemas/parts.ts'
import { publicRefusals } from '../schemas/refusals.ts'
import { NO_SECURITY } from '../schemas/security.ts'
import { toWrittenJson, type WrittenJson, writtenJson } from '../written-json.ts'

const openapiRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.openapi),
  summary: 'This description',
  tags: ['server'],
  security: NO_SECURITY,
  responses: {
    200: {
      description: 'OpenAPI 3.1',
      content: { 'application/json': { schema: z.record(z.string(), z.unknown()) } },
    },
    ...publicRefusals(),
  },
})

const docsRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.docs),
  summary: 'This description, for people',
  tags: ['server'],
  security: NO_SECURITY,
  responses: {
    200: { description: 'A page', content: { 'text/html': { schema: z.string() } } },
    ...publicRefusals(),
  },
})

/** To be called last: the document describes the routes that the app has when it is first asked for. */
export function addDocumentRoutes(app: GatewayApp): void {
  let kept:
    | { json: WrittenJson<Record<string, unknown>>; pageFor: (origin: string) => string }
    | undefined

  // Anybody may ask for them, and both take far longer to make than to send.
  function described() {
    if (kept === undefined) {
      const document = openapiDocument(app)
      kept = { json: toWrittenJson({ ...document }), pageFor: docsPages(document) }
    }
    return kept
  }

  app.openapi(openapiRoute, (c) => writtenJson(c, described().json))

  app.openapi(docsRoute, (c) => {
    const page = described().pageFor(c.get('address').origin)
    return c.html(page, 200, { 'content-security-policy': DOCS_POLICY })
  })

  // Relative, because the gateway may be mounted under a prefix.
  app.get('/', (c) => c.redirect(ROUTES.docs.slice(1)))
}
