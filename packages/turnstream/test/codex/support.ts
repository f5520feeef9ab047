import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { installTestClients } from '../../../../scripts/install-test-clients.mjs'
import { findCodex } from '../../src/codex/binary.ts'
import { type CodexProvider, createCodexProvider } from '../../src/server.ts'

const FOLDER = fileURLToPath(new URL('../clients/codex/', import.meta.url))

/** The native codex binary, installed from npm if necessary. */
export function installedCodex(): string {
  installTestClients(FOLDER)
  return findCodex(join(FOLDER, 'node_modules/.bin/codex'))
}

export const KEY = 'sk-key-of-the-vendor'

/** A provider that calls `baseUrl` through codex; it is stopped with the test. */
export function startCodex(
  baseUrl: string,
  options: Partial<Parameters<typeof createCodexProvider>[0]> = {},
): CodexProvider {
  const home = mkdtempSync(join(tmpdir(), 'turnstream-codex-'))
  const provider = createCodexProvider({
    home,
    models: ['m'],
    modelProvider: { baseUrl: `${baseUrl}/v1`, keyVariable: 'VENDOR_KEY' },
    env: { PATH: process.env['PATH'], VENDOR_KEY: KEY },
    ...options,
  })
  onTestFinished(async () => {
    await provider.stop()
    rmSync(home, { recursive: true, force: true })
  })
  return provider
}
