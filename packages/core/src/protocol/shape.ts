import * as z from 'zod'

/**
 * An object schema that keeps unknown fields.
 *
 * `z.looseObject` does the same at run time but adds an index signature to the inferred type, so that every
 * misspelt field would type-check as `unknown`.
 */
export function openObject<Shape extends z.ZodRawShape>(shape: Shape): z.ZodObject<Shape> {
  return z.looseObject(shape)
}

/** Ids are opaque to the library: any non-empty string. */
export const idSchema = z.string().min(1)

export const metadataSchema = z.record(z.string(), z.unknown())
