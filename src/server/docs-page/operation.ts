import type { JsonSchema, OpenApiDocument, Operation } from '../openapi.ts'
import { type Html, html, prose } from './html.ts'
import { fieldRow, typeOf } from './schema.ts'

export interface Place {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

/** Every operation of a document, in its order. */
export function placesOf({ paths }: OpenApiDocument): Place[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  )
}

export function operationSection(place: Place, document: OpenApiDocument, origin: string): Html {
  const { method, path, operation } = place
  const { operationId, summary, description, parameters, requestBody, responses } = operation
  const access = ACCESS[operation.security.length] ?? ''
  const rows = parameters.map(({ name, in: where, required, description: told, schema }) =>
    fieldRow(name, { ...schema, description: [where, told].filter(Boolean).join(': ') }, required),
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

/** By how many ways there are to say who asks. The most have two, and that needs no words. */
const ACCESS: Readonly<Record<number, string>> = {
  0: 'Needs no key.',
  3: 'Opens with a stream token, too.',
}

function contentTypes(content: Readonly<Record<string, { readonly schema: JsonSchema }>>): Html {
  const parts = Object.entries(content).map(
    ([type, { schema }]) => html`<code>${type}</code> ${typeOf(schema)} `,
  )
  return html`${parts}`
}

/** A line that can be pasted into a shell, but for the ids, which are in capitals. */
function curlLine(
  { method, path, operation }: Place,
  { components }: OpenApiDocument,
  origin: string,
): string {
  const url = `${origin}${path.replaceAll(/\{(\w+)\}/g, (_, name: string) => placeholder(name))}`
  const isStream = 'text/event-stream' in (operation.responses['200']?.content ?? {})
  const { $ref = '' } = operation.requestBody?.content['application/json']?.schema ?? {}
  const example = components.schemas[$ref.slice($ref.lastIndexOf('/') + 1)]?.examples?.[0]
  return [
    'curl',
    ...(isStream ? ['-N'] : []),
    ...(method === 'get' || (method === 'post' && example !== undefined)
      ? []
      : ['-X', method.toUpperCase()]),
    url,
    ...(example === undefined
      ? []
      : [`-H 'content-type: application/json' -d '${JSON.stringify(example)}'`]),
  ].join(' ')
}

function placeholder(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()
}
