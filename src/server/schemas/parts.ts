import * as z from 'zod'
import { ID_PATTERN } from '../../log/records.ts'
import { nearest } from '../../protocol/nearest.ts'

// Characters without width, marks that turn the direction of what follows, selectors of variants: with them
// two ids look like one, and an id can change the look of a line that it stands in.
const UNSEEN = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u

/** An id as the stores take them, and as people can tell them apart. */
export const idSchema = z
  .string()
  .regex(ID_PATTERN, 'must have 1 to 200 characters, without white space and braces')
  .refine(isMoreThanDots, 'must be more than dots')
  .refine((id) => !UNSEEN.test(id), 'must have no characters that cannot be seen')
  .meta({
    description:
      '1 to 200 characters, without white space, braces, control characters and invisible ones',
  })

/** An id in a header, where only ASCII is the same to everybody. */
export const headerIdSchema = z
  .string()
  .regex(/^[!-z|~]{1,200}$/, 'must have 1 to 200 visible ASCII characters, without braces')
  .refine(isMoreThanDots, 'must be more than dots')

/** An object of our own API: an unknown field is refused, because a misspelt `model` must not cost money. */
export function bodySchema<Shape extends z.ZodRawShape>(shape: Shape) {
  const names = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? unknownField(issue, names) : undefined),
  })
}

function unknownField(issue: { readonly keys?: unknown }, names: readonly string[]): string {
  const key = Array.isArray(issue.keys) ? String(issue.keys[0]) : ''
  const near = nearest(key, names)
  return `unknown field ${key}${near === undefined ? '' : `, did you mean ${near}?`}`
}

/** A text that says something. */
export function textSchema(maxChars: number) {
  return z
    .string()
    .max(maxChars)
    .refine((text) => text.trim() !== '', 'is empty')
}

/** Any JSON object, up to a size: it is kept and not looked into. */
export function jsonObjectSchema(maxChars: number) {
  return z
    .record(z.string(), z.unknown())
    .refine((value) => JSON.stringify(value).length <= maxChars, `is larger than ${maxChars}`)
}

const limitSchema = (standard: number, max: number) =>
  z.coerce.number().int().min(1).max(max).default(standard)

/** Where a page begins and how long it is. */
export function pageSchema(standard = 50, max = 200) {
  return z.object({
    limit: limitSchema(standard, max).meta({ description: 'How many at most' }),
    cursor: z
      .string()
      .max(300)
      .exactOptional()
      .meta({ description: 'The `nextCursor` of the page before' }),
  })
}

/** In an address dots are steps, also when they are escaped: such a turn could never be asked for. */
function isMoreThanDots(id: string): boolean {
  return id !== '.' && id !== '..'
}

/** A route of `ROUTES` as OpenAPI writes it: `{name}` for `:name`. */
export function openapiPath(route: string): string {
  return route.replaceAll(/:(\w+)/g, '{$1}')
}
