import * as z from 'zod'
import { UNSUPPORTED } from './errors.ts'

/** A parameter that must be missing or ask for what happens anyway. */
export function unsupported(isSupported: (value: unknown) => boolean, message: string) {
  return z
    .unknown()
    .refine((value) => value === undefined || value === null || isSupported(value), {
      message,
      params: { reason: UNSUPPORTED },
    })
    .optional()
    .meta({ description: message })
}

const NOT_HERE = 'is not supported: leave it out'

function onlyText(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => each === 'text')
}

/** Refused on every vendor's API: the client would get another answer than it asked for. */
export const REFUSED = {
  n: unsupported((value) => value === 1, 'must be 1: a turn has one answer'),
  logprobs: unsupported((value) => value === false, NOT_HERE),
  top_logprobs: unsupported((value) => value === 0, NOT_HERE),
  audio: unsupported(() => false, NOT_HERE),
  modalities: unsupported(onlyText, 'only text output is supported'),
}
