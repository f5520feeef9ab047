/** One request for every route and method that a server describes, so that none can be forgotten. */
import type { OpenApiDocument } from '../../../src/server/openapi.ts'

export interface RouteRequest {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly body?: string
}

export interface KnownIds {
  readonly runId: string
  readonly turnId: string
  readonly threadId: string
}

/** A submit is what most routes with a body take; the others pass over what they do not know. */
const BODY = JSON.stringify({ prompt: 'Hi', title: 'A title', reason: 'enough' })

export function requestsOf({ paths }: OpenApiDocument, ids: KnownIds): RouteRequest[] {
  return Object.entries(paths).flatMap(([template, methods]) =>
    Object.entries(methods).map(([method, { requestBody }]) => ({
      name: `${method.toUpperCase()} ${template}`,
      method: method.toUpperCase(),
      path: template.replaceAll(/\{(\w+)\}/g, (_, name: keyof KnownIds) => ids[name]),
      ...(requestBody && { body: BODY }),
    })),
  )
}
