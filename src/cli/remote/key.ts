import { isKey } from '../../server/auth/key-ring.ts'
import { UsageError } from '../command.ts'
import { secretOf } from '../serve/secrets.ts'
import type { Terminal } from '../terminal.ts'

const VARIABLE = 'TURNSTREAM_KEY'

/**
 * The headers that say who asks, empty without a key. It comes from the environment alone: what stands on the
 * command line can be seen by every user of the machine.
 */
export function keyHeaders({ env }: Pick<Terminal, 'env'>): Readonly<Record<string, string>> {
  const key = secretOf(env, VARIABLE)
  if (key === undefined) return {}
  // What cannot stand in a header would be repeated by the error that says so.
  if (!isKey(key)) throw new UsageError(`${VARIABLE} takes a key: visible characters, in one line`)
  return { authorization: `Bearer ${key}` }
}
