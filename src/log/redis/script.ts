import { createHash } from 'node:crypto'

/** A Lua script: a header that says what it takes and gives, then its text. */
export interface Script {
  readonly lua: string
  readonly sha: string
}

export function script(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') }
}
