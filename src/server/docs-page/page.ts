import { createHash } from 'node:crypto'
import type { OpenApiDocument } from '../openapi.ts'
import { Html, html, prose } from './html.ts'
import { operationSection, type Place, placesOf } from './operation.ts'
import { schemaTable } from './schema.ts'
import { STYLE } from './style.ts'

/** Nothing is loaded, and nothing runs, but this one style. */
export const DOCS_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Stands for the origin in a page that is kept. No text of a document has it. */
const ORIGIN = '\0'

/** The page for whatever origin it is asked for. It takes milliseconds to make, and is made once. */
export function docsPages(document: OpenApiDocument): (origin: string) => string {
  const parts = docsPage(document, ORIGIN).split(ORIGIN)
  return (origin) => parts.join(html`${origin}`.text)
}

/** The routes and shapes of an OpenAPI document, for people. */
export function docsPage(document: OpenApiDocument, origin: string): string {
  const { info, components } = document
  const places = placesOf(document)
  const schemas = Object.entries(components.schemas).toSorted(([a], [b]) => (a < b ? -1 : 1))
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${info.title} API</title>
<style>${new Html(STYLE)}</style>
</head>
<body>
<nav>
<p><strong>${info.title}</strong></p>
${tagsOf(places).map((tag) => tagLinks(tag, places))}
<h2>Shapes</h2>
<ul>${schemas.map(([name]) => html`<li><a href="#schema-${name}">${name}</a></li>`)}</ul>
</nav>
<main>
<h1>${info.title} API</h1>
<p>${info.description} The same as JSON: <a href="openapi.json">openapi.json</a>.</p>
${places.map((place) => operationSection(place, document, origin))}
<h2>Shapes</h2>
${schemas.map(
  ([name, schema]) => html`<section id="schema-${name}"><h3>${name}</h3>
<p>${prose(schema.description ?? '')}</p>${schemaTable(schema)}</section>`,
)}
</main>
</body>
</html>
`
  return page.text
}

function tagsOf(places: readonly Place[]): string[] {
  return [...new Set(places.flatMap(({ operation }) => operation.tags))]
}

function tagLinks(tag: string, places: readonly Place[]): Html {
  const links = places
    .filter(({ operation }) => operation.tags.includes(tag))
    .map(
      ({ method, path, operation }) =>
        html`<li><a href="#${operation.operationId}"><span class="method ${method}">${method.toUpperCase()}</span> ${path}</a></li>`,
    )
  return html`<h2>${tag}</h2><ul>${links}</ul>`
}
