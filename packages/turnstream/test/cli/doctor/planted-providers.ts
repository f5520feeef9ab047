import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../support.ts'
import { type Planted, SECRET } from './planted.ts'
import { folder, listing, type Setup, vendorThat, writeConfig } from './support.ts'

/** A vendor's address goes into the file, its key into the environment. */
function provider(id: string, baseUrl: string, more: object = {}): Setup {
  const cwd = folder()
  writeConfig(cwd, { providers: { [id]: { baseUrl, models: ['model-a'], ...more } } })
  const variable = `${id.replaceAll('-', '_').toUpperCase()}_API_KEY`
  return { cwd, env: { [variable]: SECRET } }
}

async function skewed(seconds: number): Promise<Setup> {
  const { url } = await vendorThat((response) => {
    response.setHeader('date', new Date(Date.now() + seconds * 1000).toUTCString())
    listing('model-a')(response)
  })
  return provider('openai', url)
}

/** Of the providers, the clock and the machine. */
export const PLANTED_PROVIDERS: readonly Planted[] = [
  {
    fault: 'a missing key file',
    plant: () => ({ env: { ANTHROPIC_API_KEY_FILE: '/nowhere/anthropic' } }),
    check: 'provider anthropic',
    verdict: 'fail',
    found: /ANTHROPIC_API_KEY_FILE cannot be read: .*: no such file/,
    fix: /Set ANTHROPIC_API_KEY/,
  },
  {
    fault: 'a world-readable key file',
    plant: async () => {
      const { url } = await vendorThat(listing('model-a'))
      const { cwd = '' } = provider('openai', url)
      writeFileSync(join(cwd, 'key'), SECRET, { mode: 0o644 })
      return { cwd, env: { OPENAI_API_KEY_FILE: join(cwd, 'key') } }
    },
    check: 'secrets',
    verdict: 'warn',
    found: /OPENAI_API_KEY_FILE is readable by every user/,
    fix: /chmod o-r .*key/,
  },
  {
    fault: 'a provider that refuses the key',
    plant: async () => {
      const { url } = await vendorThat((response) => {
        response.writeHead(401).end(`{"error":{"message":"Incorrect API key provided: ${SECRET}"}}`)
      })
      return provider('openai', url)
    },
    check: 'provider openai',
    verdict: 'fail',
    found: /refuses the key in OPENAI_API_KEY \(401\)/,
    fix: /Set OPENAI_API_KEY/,
  },
  {
    fault: "Gemini's form of a refused key",
    plant: async () => {
      const { url } = await vendorThat((response) => {
        const error = { code: 400, details: [{ reason: 'API_KEY_INVALID' }] }
        response.writeHead(400).end(JSON.stringify({ error }))
      })
      return provider('gemini', url)
    },
    check: 'provider gemini',
    verdict: 'fail',
    found: /refuses the key in GEMINI_API_KEY \(400\)/,
    fix: /Set GEMINI_API_KEY/,
  },
  {
    fault: 'an unreachable provider',
    plant: async () => provider('openai', `http://127.0.0.1:${await freePort()}`),
    check: 'provider openai',
    verdict: 'fail',
    found: /is unreachable: connection refused \(ECONNREFUSED\)/,
    fix: /curl -v http:\/\/127\.0\.0\.1:\d+/,
  },
  {
    fault: 'a provider that redirects',
    plant: async () => {
      const other = await vendorThat(listing('model-a'))
      const { url } = await vendorThat((response) => {
        response.writeHead(302, { location: other.url }).end()
      })
      return provider('openai', url)
    },
    check: 'provider openai',
    verdict: 'fail',
    found: /redirects \(302\)/,
    fix: /baseUrl of openai/,
  },
  {
    fault: 'a provider without the model',
    plant: async () => provider('openai', (await vendorThat(listing('b', 'c'))).url),
    check: 'provider openai',
    verdict: 'warn',
    found: /does not list model-a; it has 2: b, c/,
    fix: /defaultModel of openai/,
  },
  {
    fault: 'a provider that echoes the key',
    plant: async () => provider('openai', (await vendorThat(listing(SECRET))).url),
    check: 'provider openai',
    verdict: 'warn',
    found: /it has 1: \[redacted\]/,
    fix: /defaultModel of openai/,
  },
  {
    fault: 'a provider without a model list',
    plant: async () =>
      provider('openai', (await vendorThat((response) => response.writeHead(404).end())).url),
    check: 'provider openai',
    verdict: 'warn',
    found: /returned 404/,
    fix: /curl -v http:.*\/models/,
  },
  {
    fault: 'a custom provider that refuses and echoes the key',
    plant: async () => {
      const { url } = await vendorThat((response) => response.writeHead(403).end(SECRET))
      const own = { kind: 'openai-compatible', keyVariable: 'GROQ_API_KEY' }
      return { ...provider('groq', url, own), env: { GROQ_API_KEY: SECRET } }
    },
    check: 'provider groq',
    verdict: 'fail',
    found: /refuses the key in GROQ_API_KEY \(403\)/,
    fix: /Set GROQ_API_KEY/,
  },
  {
    fault: 'a custom provider without a model',
    plant: async () => {
      const { url } = await vendorThat(listing('llama'))
      const cwd = folder()
      writeConfig(cwd, { providers: [{ id: 'local', kind: 'openai-compatible', baseUrl: url }] })
      return { cwd }
    },
    check: 'provider local',
    verdict: 'fail',
    found: /no model configured/,
    fix: /Set models of local/,
  },
  {
    fault: 'a Chat Completions server without a model',
    plant: async () => {
      const { url } = await vendorThat(listing('llama'))
      return { env: { OPENAI_COMPATIBLE_BASE_URL: url } }
    },
    check: 'provider openai-compatible',
    verdict: 'fail',
    found: /no model configured/,
    fix: /OPENAI_COMPATIBLE_MODEL=llama/,
  },
  {
    fault: 'a default provider without a key',
    plant: () => ({ args: ['--default-provider', 'gemini'] }),
    check: 'default provider',
    verdict: 'fail',
    found: /gemini is not available: set GEMINI_API_KEY/,
    fix: /--default-provider <id>/,
  },
  {
    fault: 'a clock that is a little behind',
    plant: () => skewed(10),
    check: 'clock',
    verdict: 'warn',
    found: /^([6-9]|10) s behind openai/,
    fix: /timedatectl set-ntp true/,
  },
  {
    fault: 'a clock that is far ahead',
    plant: () => skewed(-3600),
    check: 'clock',
    verdict: 'fail',
    found: /^3[56]\d\d s ahead of openai/,
    fix: /timedatectl set-ntp true/,
  },
  {
    fault: 'limits that exceed the memory',
    plant: () => ({ args: ['--max-connections', '1000000000'] }),
    check: 'memory',
    verdict: 'warn',
    found: /the limits allow for 20\d{3}\.\d GB/,
    fix: /lower --max-running-turns/,
  },
  {
    fault: 'more connections than open files',
    plant: () => ({ args: ['--max-connections', '2000000000'] }),
    check: 'open files',
    verdict: 'warn',
    found: /for 2000000000 connections/,
    fix: /ulimit -n 2000000100/,
  },
]
