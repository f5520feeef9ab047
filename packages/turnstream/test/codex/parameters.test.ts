/** Parameters that codex lacks, through the provider as `serve` builds it. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { configuredCodex, decodeCodexSetting } from '../../src/cli/serve/codex.ts'
import { Providers } from '../../src/server.ts'
import { startServer } from '../server/support.ts'

const SCRIPT = fileURLToPath(new URL('scripted-app-server.mjs', import.meta.url))

async function start(): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'turnstream-codex-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const agent = { directory, sandbox: 'read-only' }
  const api = { baseUrl: 'http://127.0.0.1:1/v1', keyVariable: 'MODE' }
  const setting = decodeCodexSetting({ binary: SCRIPT, models: ['m'], agent, ...api }, 'c', '/')
  const codex = configuredCodex(setting, {
    env: { PATH: process.env['PATH'], MODE: 'answers' },
    store: { kind: 'embedded', directory },
  })
  onTestFinished(() => codex.provider.stop?.())
  return (await startServer({ providers: new Providers([codex]) })).url
}

const messages = [{ role: 'user', content: 'hi' }]
const sampling = { temperature: 0.5, top_p: 0.9 }

test.each(['codex/m', 'codex/agent'])('%s drops and names them on every API', async (model) => {
  const url = await start()
  const more = { max_tokens: 9, seed: 1, user: 'me', stop: 'x', frequency_penalty: 1 }
  const ignored: [string, object, string][] = [
    [
      'chat/completions',
      { messages, ...sampling, ...more },
      'temperature top_p max_tokens seed user stop frequency_penalty',
    ],
    [
      'responses',
      { input: 'hi', max_output_tokens: 16, ...sampling },
      'max_output_tokens temperature top_p',
    ],
    [
      'messages',
      { messages, max_tokens: 9, top_k: 3, stop_sequences: ['x'], ...sampling },
      'max_tokens top_k stop_sequences temperature top_p',
    ],
  ]
  for (const [route, body, names] of ignored) {
    const response = await fetch(`${url}/v1/${route}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, ...body }),
    })
    expect(await response.text()).toContain('Hello.')
    const header = response.headers.get('x-turnstream-ignored')?.split(', ')
    expect(header?.toSorted()).toEqual(names.split(' ').toSorted())
  }
})
