import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { keys as command } from '../../../src/cli/keys.ts'
import { sha256Of } from '../../../src/server/auth/key-ring.ts'
import { fakeTerminal } from '../fake-terminal.ts'

export const A = sha256Of('a')
export const FILE = 'turnstream.keys'

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-keys-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

/** The command in its own directory with a keys file. */
export function setUp(text?: string) {
  const cwd = folder()
  const path = join(cwd, FILE)
  if (text !== undefined) writeFileSync(path, text)
  async function keys(
    args: string[],
    env: Record<string, string> = { TURNSTREAM_KEYS_FILE: FILE },
  ) {
    const { terminal, output, errors } = fakeTerminal([], { cwd, env })
    const code = await command.run(args, terminal)
    return { code, out: output(), err: errors() }
  }
  return { cwd, path, keys, text: () => readFileSync(path, 'utf8') }
}
