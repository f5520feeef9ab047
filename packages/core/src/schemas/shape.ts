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

/** One case of a union that `type` tells apart. */
export function variant<Type extends string, Shape extends z.ZodRawShape>(
  type: Type,
  shape: Shape,
) {
  return openObject({ type: z.literal(type), ...shape })
}

/** Returns the schema. Compiles only if what the schema accepts is exactly the type `T`. */
export function schemaOf<T>() {
  return <Schema extends z.ZodType>(
    schema: Schema,
    ..._mismatch: Same<Plain<z.infer<Schema>>, Plain<T>> extends true ? [] : [never]
  ): Schema => schema
}

/** Whether the compiler sees no difference: in a field, or in whether it is optional. */
// oxlint-disable typescript/no-unnecessary-type-parameters -- it compares two generic functions by their bodies
type Same<One, Other> =
  (<T>() => T extends One ? 1 : 2) extends <T>() => T extends Other ? 1 : 2 ? true : false
// oxlint-enable typescript/no-unnecessary-type-parameters

/** Writes intersections out, which the comparison needs. */
type Plain<T> = T extends object ? { [Name in keyof T]: Plain<T[Name]> } : T

/** Ids are opaque to the library: any non-empty string. */
export const idSchema = z.string().min(1)

export const metadataSchema = z.record(z.string(), z.unknown())
