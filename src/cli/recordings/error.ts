import type { Recording } from '../../adapters/scripted/wire.ts'
import { Script } from './script.ts'

const TEXT = `This answer will not come to its end. Providers are overloaded, networks break, quotas run out, \
and all of it may happen in the middle of a sentence.

What matters is what is left then. The text up to that point is kept; the item it belongs to is marked as \
failed, with a code; the turn ends as an error, once, for everybody who reads it now or later. Nobody waits \
for ever, and nobody takes half an answer for a whole`

/** An answer that breaks off. */
export function recordError(): Recording {
  return new Script('error').breakOff(400, TEXT, {
    code: 'overloaded_error',
    message: 'The model is overloaded (this failure is part of the recording)',
  })
}
