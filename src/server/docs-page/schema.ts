import type { JsonSchema } from '../openapi.ts'
import { type Html, html, prose } from './html.ts'

/** A schema in a few words, with links to those that have a name. */
export function typeOf(schema: JsonSchema): Html {
  const { $ref, oneOf, anyOf, items } = schema
  if ($ref !== undefined) return schemaLink($ref)
  const variants = oneOf ?? anyOf
  if (variants !== undefined) return joined(variants.map(typeOf), ' or ')
  if (schema.enum !== undefined) return joined(schema.enum.map(literal), ' or ')
  if (schema.const !== undefined) return literal(schema.const)
  if (items !== undefined) return html`list of ${typeOf(items)}`
  if (schema.type === 'object' && schema.properties !== undefined) return inlineObject(schema)
  return html`${[schema.type ?? 'anything'].flat().join(' or ')}${bounds(schema)}`
}

function schemaLink($ref: string): Html {
  const name = $ref.slice($ref.lastIndexOf('/') + 1)
  return html`<a href="#schema-${name}">${name}</a>`
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
  // Every integer of JSON lies between these: they say nothing.
  const hasLow = minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER
  const hasHigh = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER
  const low = hasLow ? ` from ${minimum}` : ''
  return hasHigh ? `${low} to ${maximum.toLocaleString('en')}` : low
}

function joined(parts: readonly Html[], separator: string): Html {
  return html`${parts.map((part, index) => (index === 0 ? part : html`${separator}${part}`))}`
}

/** The fields of an object as rows of a table; of a union, those of each variant. */
export function schemaTable(schema: JsonSchema): Html {
  const { properties, required = [], oneOf } = schema
  if (oneOf !== undefined) return joined(oneOf.map(schemaTable), '')
  if (properties === undefined) return html`<p>${typeOf(schema)}</p>`
  const rows = Object.entries(properties).map(([name, field]) =>
    fieldRow(name, field, required.includes(name)),
  )
  return html`<table><tbody>${rows}</tbody></table>`
}

export function fieldRow(name: string, schema: JsonSchema, isRequired: boolean): Html {
  const { description = '', default: standard } = schema
  const fallback = standard === undefined ? undefined : html` Unless given: ${literal(standard)}.`
  return html`<tr>
<th><code>${name}</code>${isRequired ? html` <b title="required">*</b>` : ''}</th>
<td>${typeOf(schema)}</td><td>${prose(description)}${fallback}</td></tr>`
}
