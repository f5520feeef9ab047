import { createHash } from 'node:crypto'
import { html as anyHtml, raw } from 'hono/html'
import type { HtmlEscapedString as Html } from 'hono/utils/html'
import type { Content, JsonSchema, OpenApiDocument, Operation } from './openapi.ts'

/** Without promises, which nothing here needs. */
const html = anyHtml as (strings: TemplateStringsArray, ...parts: unknown[]) => Html

/** Follows the system's colour scheme. */
const STYLE = `
:root { color-scheme: light dark; --text: #1d2129; --soft: #5c6470; --line: #e1e4e8; --back: #fff;
  --panel: #f6f7f9; --link: #0b5cad; --get: #1a7f4b; --post: #9a5b00; --patch: #6b46c1; --delete: #c0312b }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7eb; --soft: #9aa4b2; --line: #2c323b; --back: #14171c; --panel: #1c2027;
    --link: #7ab8ff; --get: #5fd39a; --post: #f0b35a; --patch: #b79cff; --delete: #ff8a80 }
}
* { box-sizing: border-box }
body { margin: 0; color: var(--text); background: var(--back); display: flex;
  font: 16px/1.55 system-ui, sans-serif }
nav { width: 22rem; flex: none; height: 100vh; position: sticky; top: 0; overflow-y: auto;
  padding: 1.5rem; background: var(--panel); border-right: 1px solid var(--line); font-size: 14px }
nav h2 { font-size: 12px; text-transform: uppercase; letter-spacing: .08em; color: var(--soft);
  margin: 1.5rem 0 .25rem }
nav ul { list-style: none; margin: 0; padding: 0 }
nav li { margin: .2rem 0; overflow-wrap: anywhere }
main { flex: 1; min-width: 0; max-width: 62rem; padding: 1.5rem 2.5rem 6rem }
section { border-top: 1px solid var(--line); padding: 1.25rem 0; scroll-margin-top: 1rem }
h1 { font-size: 1.8rem } h3 { font-size: 1.05rem; margin: .2rem 0 .6rem }
h4 { font-size: 13px; margin: 1.1rem 0 .3rem; color: var(--soft) }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
code, pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem;
  overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 14px }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0;
  border-top: 1px solid var(--line); overflow-wrap: break-word }
th { width: 11rem; font-weight: 500 } th b { color: var(--delete) }
.method { font: 600 11px/1 ui-monospace, Menlo, Consolas, monospace; color: var(--soft) }
.get { color: var(--get) } .post { color: var(--post) } .patch { color: var(--patch) }
.delete { color: var(--delete) }
@media (max-width: 60rem) {
  body { display: block } nav { width: auto; height: auto; position: static; border: 0 }
  main { padding: 1.5rem } th { width: auto }
}
`

/** Allows only this style; nothing is loaded or executed. */
export const DOCS_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Placeholder for the origin in the cached page. Occurs in no document. */
const ORIGIN = '\0'

/** The page for any origin. Rendering takes milliseconds and is done once. */
export function docsPages(document: OpenApiDocument): (origin: string) => string {
  const parts = docsPage(document, ORIGIN).split(ORIGIN)
  return (origin) => parts.join(String(html`${origin}`))
}

export function docsPage(document: OpenApiDocument, origin: string): string {
  const { info, components } = document
  const places = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Place => ({ method, path, operation })),
  )
  const tags = new Set(places.flatMap(({ operation }) => operation.tags))
  const schemas = Object.entries(components.schemas).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return String(html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${info.title} API</title>
<style>${raw(STYLE)}</style>
</head>
<body>
<nav>
<p><strong>${info.title}</strong></p>
${[...tags].map((tag) => tagLinks(tag, places))}
<h2>Schemas</h2>
<ul>${schemas.map(([name]) => html`<li><a href="#schema-${name}">${name}</a></li>`)}</ul>
</nav>
<main>
<h1>${info.title} API</h1>
<p>${info.description} The same as JSON: <a href="openapi.json">openapi.json</a>.</p>
${places.map((place) => operationSection(place, document, origin))}
<h2>Schemas</h2>
${schemas.map(
  ([name, schema]) => html`<section id="schema-${name}"><h3>${name}</h3>
<p>${prose(schema.description ?? '')}</p>${schemaTable(schema)}</section>`,
)}
</main>
</body>
</html>
`)
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

interface Place {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

function operationSection(place: Place, document: OpenApiDocument, origin: string): Html {
  const { method, path, operation } = place
  const { operationId, summary, description, parameters, requestBody, responses } = operation
  const access = ACCESS[operation.security.length] ?? ''
  const rows = parameters.map(({ name, in: where, required, description: text, schema }) =>
    fieldRow(name, { ...schema, description: [where, text].filter(Boolean).join(': ') }, required),
  )
  const body = requestBody && html`<h4>Body</h4><p>${contentTypes(requestBody.content)}</p>`
  const answers = Object.entries(responses).map(
    ([status, answer]) => html`<tr><th>${status}</th>
<td>${prose(answer.description)}</td><td>${contentTypes(answer.content ?? {})}</td></tr>`,
  )
  return html`<section id="${operationId}">
<h3><span class="method ${method}">${method.toUpperCase()}</span> <code>${path}</code></h3>
<p><strong>${summary}.</strong> ${prose(description ?? '')} ${access}</p>
<pre><code>${curlLine(place, document, origin)}</code></pre>
${rows.length > 0 ? html`<h4>Parameters</h4><table><tbody>${rows}</tbody></table>` : ''}
${body}
<h4>Answers</h4><table><tbody>${answers}</tbody></table>
</section>`
}

/** By number of authentication schemes. Most routes have two, which needs no note. */
const ACCESS: Readonly<Record<number, string>> = {
  0: 'No key required.',
  3: 'Also accepts a stream token.',
}

function contentTypes(content: Content): Html {
  return html`${Object.entries(content).map(
    ([type, { schema }]) => html`<code>${type}</code> ${typeOf(schema)} `,
  )}`
}

/** A shell command to paste. Ids are placeholders in capitals. */
function curlLine(
  { method, path, operation }: Place,
  { components }: OpenApiDocument,
  origin: string,
): string {
  const url = `${origin}${path.replaceAll(/\{(\w+)\}/g, (_, name: string) => placeholder(name))}`
  const isStream = 'text/event-stream' in (operation.responses['200']?.content ?? {})
  const { $ref = '' } = operation.requestBody?.content['application/json']?.schema ?? {}
  const example = components.schemas[nameOf($ref)]?.examples?.[0]
  const isDefault = method === 'get' || (method === 'post' && example !== undefined)
  const parts = [
    isStream && '-N',
    !isDefault && `-X ${method.toUpperCase()}`,
    url,
    example !== undefined && `-H 'content-type: application/json' -d '${JSON.stringify(example)}'`,
  ]
  return ['curl', ...parts.filter((part) => part !== false)].join(' ')
}

function placeholder(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()
}

function nameOf($ref: string): string {
  return $ref.slice($ref.lastIndexOf('/') + 1)
}

/** A schema in short form, with links to named schemas. */
function typeOf(schema: JsonSchema): Html {
  const { $ref, oneOf, anyOf, items } = schema
  if ($ref !== undefined) return html`<a href="#schema-${nameOf($ref)}">${nameOf($ref)}</a>`
  const variants = oneOf ?? anyOf
  if (variants !== undefined) return joined(variants.map(typeOf), ' or ')
  if (schema.enum !== undefined) return joined(schema.enum.map(literal), ' or ')
  if (schema.const !== undefined) return literal(schema.const)
  if (items !== undefined) return html`list of ${typeOf(items)}`
  if (schema.type === 'object' && schema.properties !== undefined) return inlineObject(schema)
  return html`${[schema.type ?? 'anything'].flat().join(' or ')}${bounds(schema)}`
}

function literal(value: unknown): Html {
  return html`<code>${JSON.stringify(value)}</code>`
}

function inlineObject({ properties = {}, required = [] }: JsonSchema): Html {
  const fields = Object.entries(properties).map(([name, schema]) => {
    const mark = required.includes(name) ? '' : '?'
    return html`<code>${name}${mark}</code> ${typeOf(schema)}`
  })
  return html`{ ${joined(fields, ', ')} }`
}

function bounds({ minimum, maximum, maxLength }: JsonSchema): string {
  if (maxLength !== undefined) return ` up to ${maxLength.toLocaleString('en')} characters`
  // Omits the bounds of safe integers.
  const hasLow = minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER
  const hasHigh = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER
  const low = hasLow ? ` from ${minimum}` : ''
  return hasHigh ? `${low} to ${maximum.toLocaleString('en')}` : low
}

function joined(parts: readonly Html[], separator: string): Html {
  return html`${parts.map((part, index) => (index === 0 ? part : html`${separator}${part}`))}`
}

/** The fields of an object, or of each variant of a union. */
function schemaTable(schema: JsonSchema): Html {
  const { properties, required = [], oneOf } = schema
  if (oneOf !== undefined) return joined(oneOf.map(schemaTable), '')
  if (properties === undefined) return html`<p>${typeOf(schema)}</p>`
  const rows = Object.entries(properties).map(([name, field]) =>
    fieldRow(name, field, required.includes(name)),
  )
  return html`<table><tbody>${rows}</tbody></table>`
}

function fieldRow(name: string, schema: JsonSchema, isRequired: boolean): Html {
  const { description = '', default: standard } = schema
  const fallback = standard === undefined ? undefined : html` Default: ${literal(standard)}.`
  return html`<tr>
<th><code>${name}</code>${isRequired ? html` <b title="required">*</b>` : ''}</th>
<td>${typeOf(schema)}</td><td>${prose(description)}${fallback}</td></tr>`
}

/** Prose with code in backquotes. */
export function prose(text: string): Html {
  const parts = text.split('`')
  return html`${parts.map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`
}
