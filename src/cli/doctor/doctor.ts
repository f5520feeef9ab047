import { parseArgs } from 'node:util'
import { redacting } from '../../protocol/redaction.ts'
import { isKey } from '../../server/auth/key-ring.ts'
import { type Command, type ExitCode, UsageError } from '../command.ts'
import { optionFault } from '../option-fault.ts'
import { FLAGS, parseFlags } from '../serve/options.ts'
import { secretOf } from '../serve/secrets.ts'
import type { Terminal } from '../terminal.ts'
import { type Check, redactCheck, warn } from './check.ts'
import { endpointChecks } from './endpoint/endpoint-checks.ts'
import { DOCTOR_HELP } from './help.ts'
import { thisMachine } from './machine-check.ts'
import { writeReport } from './report.ts'
import { setupChecks } from './setup-checks.ts'

const ENDPOINT_OPTIONS = {
  endpoint: { type: 'string' },
  model: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const isOfEndpoint = args.some((arg) => /^--(endpoint|model)(=|$)/.test(arg))
  return isOfEndpoint ? checkEndpoint(args, terminal) : checkSetup(args, terminal)
}

async function checkSetup(args: string[], terminal: Terminal): Promise<ExitCode> {
  const { config, json, ...flags } = parseFlags(args)
  const { env, cwd, clock, status } = terminal
  const sources = { flags, env, cwd, ...(typeof config === 'string' && { configFile: config }) }
  const setup = { sources, machine: thisMachine(), clock, onProgress: status }
  const checks = await setupChecks(setup).finally(() => status(''))
  return writeReport(checks, terminal, json === true)
}

async function checkEndpoint(args: string[], terminal: Terminal): Promise<ExitCode> {
  const values = endpointOptions(args)
  const baseUrl = baseUrlOf(values.endpoint)
  const key = keyOf(terminal)
  const checks = await endpointChecks({
    baseUrl,
    key,
    model: values.model,
    clock: terminal.clock,
    onProgress: (about) => terminal.status(`asking for ${about} …`),
  }).finally(() => terminal.status(''))
  const redact = redacting(key === undefined ? [] : [key])
  const all = [...checks, ...plainHttpCheck(baseUrl, key)]
  return writeReport(
    all.map((check) => redactCheck(check, redact)),
    terminal,
    values.json,
  )
}

/** Those of serve mean nothing here, and are not suggested. */
function endpointOptions(args: string[]) {
  try {
    return parseArgs({ args, options: ENDPOINT_OPTIONS }).values
  } catch (error) {
    throw optionFault(error, Object.keys(ENDPOINT_OPTIONS)) ?? error
  }
}

function baseUrlOf(endpoint: string | undefined): string {
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

const KEY_VARIABLES = ['OPENAI_API_KEY', 'TURNSTREAM_KEY']

/** From the environment alone: what stands on the command line can be seen by every user of the machine. */
function keyOf({ env }: Terminal): string | undefined {
  for (const variable of KEY_VARIABLES) {
    const key = secretOf(env, variable)
    if (key === undefined) continue
    if (isKey(key)) return key
    throw new UsageError(`${variable} takes a key: visible characters, in one line`)
  }
  return undefined
}

function plainHttpCheck(baseUrl: string, key: string | undefined): Check[] {
  const { protocol, hostname } = new URL(baseUrl)
  const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
  if (key === undefined || protocol === 'https:' || isLocal) return []
  const found = 'the key was sent over plain http: whoever is on the way can read it'
  return [warn('key', found, `Use https://${hostname}, and a new key`)]
}

export const doctor: Command = {
  summary: 'find out what is wrong, and how to put it right',
  help: DOCTOR_HELP,
  options: { ...FLAGS, ...ENDPOINT_OPTIONS },
  run,
}
