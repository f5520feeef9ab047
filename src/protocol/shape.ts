import * as z from 'zod'

/**
 * An object whose unknown fields are kept when it is decoded.
 *
 * `z.looseObject` does the same at run time but puts an index signature into the inferred type, and
 * with it every misspelt field of ours would type-check as `unknown`.
 */
export function openObject<Shape extends z.ZodRawShape>(shape: Shape): z.ZodObject<Shape> {
  return z.looseObject(shape)
}

/** Ids are opaque to the library: any non-empty string. */
export const idSchema = z.string().min(1)

export const metadataSchema = z.record(z.string(), z.unknown())
