/** A server that was given secrets in every way in which it takes them. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { turnstream } from '../cli/process.ts'
import type { HostileVendor } from './hostile-vendor.ts'

/** Each has signs that are written otherwise in a URL, in JSON and in base64. */
const secretOf = (name: string): string => `pl4nted/${name}+"key"\\0123456789=`

export const PROVIDERS = {
  openai: secretOf('openai'),
  anthropic: secretOf('anthropic'),
  gemini: secretOf('gemini'),
  'openai-compatible': secretOf('compatible'),
}
export const PASSWORD = 'pl4nted/store+password"0123456789'
export const TOKEN_SECRET = secretOf('signs-the-stream-tokens')

export function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-scan-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

function fileOf(directory: string, name: string, content: string): string {
  const path = join(directory, name)
  writeFileSync(path, content)
  // As careless as can be: the server says so, and does not repeat what is in it.
  chmodSync(path, 0o666)
  return path
}

async function newKey(file: string, tenant: string): Promise<string> {
  const command = turnstream(['keys', 'add', tenant, '--file', file], { cwd: folder() })
  expect(await command.ended).toBe(0)
  return command.stdout().trim()
}

export interface Stage {
  readonly store: string
  readonly json: boolean
}

export async function startWithSecrets({ store, json }: Stage, vendor: HostileVendor) {
  const cwd = folder()
  const keysFile = join(cwd, 'keys')
  const keys: [string, string] = [await newKey(keysFile, 'one'), await newKey(keysFile, 'two')]
  const providers = Object.fromEntries(
    Object.keys(PROVIDERS).map((id) => [id, { baseUrl: vendor.url, models: ['answer'] }]),
  )
  const unlimited = { submitsPerMinute: 'unlimited', maxRunningTurns: 'unlimited' }
  const settings = {
    ...{ providers, keysFile, shutdownGrace: '1s', port: 0, logRequests: true },
    ...unlimited,
  }
  writeFileSync(join(cwd, 'turnstream.config.json'), JSON.stringify(settings))
  const server = turnstream(['serve', ...(json ? ['--json'] : [])], {
    cwd,
    env: {
      OPENAI_API_KEY: PROVIDERS.openai,
      ANTHROPIC_API_KEY_FILE: fileOf(cwd, 'anthropic', PROVIDERS.anthropic),
      GEMINI_API_KEY: PROVIDERS.gemini,
      OPENAI_COMPATIBLE_API_KEY_FILE: fileOf(cwd, 'compatible', PROVIDERS['openai-compatible']),
      TURNSTREAM_STORE_FILE: fileOf(cwd, 'store-address', store),
      TURNSTREAM_STREAM_TOKEN_SECRET: TOKEN_SECRET,
    },
  })
  const [, url = ''] = await server.printed(/(http:\/\/127\.0\.0\.1:\d+)/)
  return { ...server, url, cwd, keys, keysFile }
}

export type SecretiveServer = Awaited<ReturnType<typeof startWithSecrets>>
