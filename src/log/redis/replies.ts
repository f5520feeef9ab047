import { TurnstreamError } from '../../protocol/errors.ts'
import type { EpochStart } from '../offsets.ts'
import type { HeadState } from '../rules.ts'

/* What scripts answer, as types. */

const STATE = /^(\d{1,15}):(\d{1,15})(?:@[\da-f]+)?(!?)$/

export function parseState(text: string): HeadState {
  const [, epoch, head, mark] = STATE.exec(text) ?? []
  if (epoch === undefined || head === undefined) throw corrupt(`the state of a log is ${text}`)
  return { epoch: Number(epoch), head: Number(head), sealed: mark === '!' }
}

/** `1:1,2:301`: epoch 1 from record 1 on, epoch 2 from record 301 on. */
export function parseEpochs(text: unknown): EpochStart[] {
  if (typeof text !== 'string') throw corrupt('the epochs of a log are missing')
  return text.split(',').map((part) => {
    const [epoch, from] = part.split(':').map(Number)
    if (epoch === undefined || from === undefined || !Number.isSafeInteger(epoch + from)) {
      throw corrupt(`an epoch of a log is ${part}`)
    }
    return { epoch, from }
  })
}

export interface Entry {
  readonly epoch: number
  readonly seq: number
  readonly id: string
  readonly fields: Readonly<Record<string, string>>
}

export function parseEntries(reply: unknown): Entry[] {
  return list(reply).map((each) => {
    const [id, fields] = list(each)
    const [epoch, seq] = text(id).split('-').map(Number)
    if (epoch === undefined || seq === undefined) throw corrupt('an entry has no id')
    return { epoch, seq, id: text(id), fields: parseFields(fields) }
  })
}

export function parseFields(reply: unknown): Record<string, string> {
  // What fields are called comes from the store: `__proto__` must be a name like any other.
  const fields: Record<string, string> = Object.create(null)
  const flat = list(reply)
  for (let at = 0; at < flat.length; at += 2) fields[text(flat[at])] = text(flat[at + 1])
  return fields
}

export function list(reply: unknown): unknown[] {
  if (Array.isArray(reply)) return reply
  throw corrupt('a list was expected')
}

export function text(reply: unknown): string {
  if (typeof reply === 'string') return reply
  if (typeof reply === 'number') return String(reply)
  throw corrupt('a text was expected')
}

export function texts(reply: unknown): string[] {
  return list(reply).map(text)
}

export function corrupt(detail: string): TurnstreamError {
  return new TurnstreamError('STORE_CORRUPT', detail)
}
