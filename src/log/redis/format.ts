import { TurnstreamError } from '../../protocol/errors.ts'
import type { Calls } from './calls.ts'

/** Counts the ways in which this package has laid out its keys. With 2, turns say of which creation they are. */
export const FORMAT = 2

/** Marks the store as ours. It is kept for as long as anything that was written now. */
export async function checkFormat(calls: Calls, key: string, keepMs: number): Promise<void> {
  const found = await calls.command(key, 'GET', key)
  if (typeof found === 'string' && Number(found) !== FORMAT) {
    const advice = 'run the version that wrote them, or use another prefix'
    const detail = `the keys have format ${found}, and this version reads ${FORMAT}: ${advice}`
    throw new TurnstreamError('STORE_VERSION', detail)
  }
  await calls.command(key, 'SET', key, String(FORMAT), 'PX', String(keepMs))
}
