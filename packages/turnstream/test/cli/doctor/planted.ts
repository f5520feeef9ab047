import { join } from 'node:path'
import type { Verdict } from '../../../../conformance/src/endpoint/check.ts'
import { StoreProcess } from '../../log/embedded/process.ts'
import { folder, type Setup } from './support.ts'

/** In every fault that could leak one. */
export const SECRET = 'sk-planted-Secret-0123456789abcdef'

/** A fault, and what a report has to say of it. */
export interface Planted {
  fault: string
  plant: () => Promise<Setup> | Setup
  check: string
  verdict: Verdict
  found: RegExp
  fix: RegExp
}

/** A store that another process has open. */
export async function lockedStore(): Promise<Setup> {
  const cwd = folder()
  const child = new StoreProcess('hold', join(cwd, 'data'))
  await child.until(({ open }) => open !== undefined)
  return { cwd, args: ['--store', 'data'] }
}
