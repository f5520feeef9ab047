import { redacting } from '../../protocol/redaction.ts'
import { type Command, type ExitCode, parseOptions, UsageError } from '../command.ts'
import { environmentKey } from '../remote/gateway-client.ts'
import { FLAGS, parseSources } from '../serve/configuration.ts'
import { isPlainHttp } from '../serve/options.ts'
import type { Terminal } from '../terminal.ts'
import { redactCheck, warn, writeReport } from './check.ts'
import { endpointChecks } from './endpoint/endpoint-checks.ts'
import { thisMachine } from './machine-checks.ts'
import { setupChecks } from './setup-checks.ts'

const HELP = `turnstream doctor: find out what is wrong, and how to put it right

Usage
  turnstream doctor [options of serve] [--json]
  turnstream doctor --endpoint <url> [--model <model>] [--json]

Without --endpoint it looks at what "turnstream serve" would be started with here: configuration, store,
port, keys, limits of the machine, providers, clock. It changes nothing, and may run beside a server. Give
it the options that the server gets. It reads every record of an embedded store that no process uses, which
takes seconds per gigabyte; meanwhile no server can open that store.

With --endpoint it asks a server that speaks Chat Completions for answers, streams, tool calls and
refusals, and says where they differ from what clients expect. That costs some thousand tokens.

Options
  --config <file>      settings as JSON (./turnstream.config.json, if it is there)
  --endpoint <url>     such as http://localhost:11434/v1; its key comes from OPENAI_API_KEY or
                       TURNSTREAM_KEY, or from the file that either with _FILE at its end names
  --model <model>      the model to ask (the first that the server lists)
  --json               one JSON object: {"ok","failed","warned","checks":[{"name","verdict","found",…}]}

Examples
  turnstream doctor
  turnstream doctor --store ./data
  turnstream doctor --store redis://localhost:6379
  turnstream doctor --endpoint http://localhost:11434/v1 --model qwen3

Exit codes
  0 nothing failed; there may be warnings · 1 something failed · 2 the command makes no sense
`

const ENDPOINT_OPTIONS = {
  endpoint: { type: 'string' },
  model: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

const run: Command['run'] = async (args, terminal) => {
  const { clock, status } = terminal
  if (args.some((arg) => /^--(endpoint|model)(=|$)/.test(arg))) return checkEndpoint(args, terminal)
  const { json, sources } = parseSources(args, terminal)
  const setup = { sources, machine: thisMachine(), clock, onProgress: status }
  const checks = await setupChecks(setup).finally(() => status(''))
  return writeReport(checks, terminal, json)
}

async function checkEndpoint(args: string[], terminal: Terminal): Promise<ExitCode> {
  // The options of serve mean nothing here, and are not suggested.
  const { endpoint, model, json } = parseOptions({ args, options: ENDPOINT_OPTIONS }).values
  const { env, clock, status } = terminal
  const baseUrl = parseEndpoint(endpoint)
  const key = environmentKey(env, 'OPENAI_API_KEY') ?? environmentKey(env, 'TURNSTREAM_KEY')
  const onProgress = (about: string) => status(`asking for ${about} …`)
  const checks = await endpointChecks({ baseUrl, key, model, clock, onProgress }).finally(() =>
    status(''),
  )
  if (key !== undefined && isPlainHttp(baseUrl)) {
    const found = 'the key was sent over plain http: whoever is on the way can read it'
    checks.push(warn('key', found, `Use https://${new URL(baseUrl).hostname}, and a new key`))
  }
  const redact = redacting(key === undefined ? [] : [key])
  const redacted = checks.map((check) => redactCheck(check, redact))
  return writeReport(redacted, terminal, json)
}

/** The base URL without a slash at its end. */
function parseEndpoint(endpoint: string | undefined): string {
  if (endpoint === undefined) throw new UsageError('--model is for --endpoint: name that, too')
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  // What is wrong with it is not repeated: it may have a password.
  const isUsable = url && /^https?:$/.test(url.protocol) && !url.username && !url.password
  if (!isUsable || url.search !== '') {
    throw new UsageError(
      '--endpoint takes an http:// or https:// address without a user and a query',
    )
  }
  const path = url.pathname.replace(/\/+$/, '').replace(/\/chat\/completions$/, '')
  // Where most servers have it, and where clients look for it.
  return `${url.origin}${path === '' ? '/v1' : path}`
}

export const doctor: Command = { help: HELP, options: { ...FLAGS, ...ENDPOINT_OPTIONS }, run }
