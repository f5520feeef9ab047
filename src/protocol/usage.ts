import * as z from 'zod'
import { openObject } from './shape.ts'

const count = z.number().nonnegative()

/** Tokens as the provider counted them; `estimated` marks figures that we had to guess. */
export const usageSchema = openObject({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  cached_tokens: count.exactOptional(),
  cache_write_tokens: count.exactOptional(),
  reasoning_tokens: count.exactOptional(),
  estimated: z.boolean().exactOptional(),
})
export type Usage = z.infer<typeof usageSchema>
