import { resolve } from 'node:path'
import {
  type Check,
  checkNamed,
  redactCheck,
} from '@turnstream/conformance/internal/endpoint/check'
import { endpointChecks } from '@turnstream/conformance/internal/endpoint/endpoint-checks'
import { APIS } from '@turnstream/conformance/internal/endpoint/exchange'
import type { Clock } from '@turnstream/core/internal/async/clock'
import { hasCode } from '@turnstream/core/internal/protocol/errors'
import { redacting, redactShapes } from '@turnstream/core/internal/protocol/redaction'
import { parseUrl } from '@turnstream/core/internal/protocol/url'
import {
  type Command,
  type ExitCode,
  parseChoice,
  parseOptions,
  UsageError,
  usageFault,
} from '../command.ts'
import { environmentKey } from '../gateway.ts'
import { readKeysFile } from '../keys.ts'
import {
  CONFIG_OPTION,
  type Configuration,
  type ConfigurationSources,
  parseSources,
  readConfiguration,
  SETTING_OPTIONS,
} from '../serve/configuration.ts'
import { collectSecrets } from '../serve/providers.ts'
import { findWarnings, isOpenTo, isPlainHttp, refusePublic } from '../serve/serve.ts'
import type { Settings } from '../serve/settings.ts'
import type { Terminal } from '../terminal.ts'
import { messageOf } from '../text.ts'
import { codexChecks } from './codex-checks.ts'
import { embeddedChecks } from './embedded-checks.ts'
import {
  type ClockReading,
  checkPort,
  clockCheck,
  filesCheck,
  memoryCheck,
  nodeCheck,
  thisMachine,
} from './machine-checks.ts'
import { checkProviders, defaultProviderCheck } from './provider-checks.ts'
import { checkRedis } from './redis-checks.ts'
import { writeReport } from './report.ts'
import { toolChecks } from './tool-checks.ts'

const CONFIGURATION = checkNamed('configuration')
const STORE = checkNamed('store')

const ENDPOINT_OPTIONS = {
  endpoint: {
    value: 'url',
    about: `such as http://localhost:11434/v1; the key is read from OPENAI_API_KEY (with
--api messages: ANTHROPIC_API_KEY) or TURNSTREAM_KEY, or from their _FILE`,
  },
  api: {
    value: 'api',
    about: 'chat (Chat Completions), responses (OpenAI) or messages (Anthropic)',
    default: 'chat',
    choices: APIS,
  },
  model: { value: 'model', about: 'model to test (default: the first listed)' },
  json: { about: 'print one JSON object: {"ok","failed","warned","checks":[…]}' },
} as const

const CODEX_OPTIONS = { codex: { about: 'check what "turnstream codex" would use' } } as const

const run: Command['run'] = async (args, terminal) => {
  const { clock, status } = terminal
  if (args.some((arg) => /^--(api|endpoint|model)(=|$)/.test(arg)))
    return checkEndpoint(args, terminal)
  const { json, sources: given } = parseSources(args, terminal, CODEX_OPTIONS)
  const sources = { ...given, isForCodex: given.flags['codex'] === true }
  const setup = { sources, clock, onProgress: status }
  const checks = await setupChecks(setup).finally(() => status(''))
  return writeReport(checks, terminal, json)
}

async function checkEndpoint(args: string[], terminal: Terminal): Promise<ExitCode> {
  // The options of serve do not apply here and are not suggested.
  const { values } = parseOptions(args, { options: ENDPOINT_OPTIONS })
  const { endpoint, model, json } = values
  const { env, clock, status } = terminal
  const api = parseChoice('--api', values.api, APIS)
  const baseUrl = parseEndpoint(endpoint)
  const variable = api === 'messages' ? 'ANTHROPIC_API_KEY' : 'OPENAI_API_KEY'
  const key = environmentKey(env, variable) ?? environmentKey(env, 'TURNSTREAM_KEY')
  const onProgress = (about: string) => status(`requesting ${about} …`)
  const tested = endpointChecks({ api, baseUrl, key, model, clock, onProgress })
  const checks = await tested.finally(() => status(''))
  if (key !== undefined && isPlainHttp(baseUrl)) {
    const found = 'the key was sent over plain http: anyone on the network path can read it'
    checks.push(
      checkNamed('key').warn(found, `Use https://${new URL(baseUrl).hostname}, and a new key`),
    )
  }
  const redact = redacting(key === undefined ? [] : [key])
  const redacted = checks.map((check) => redactCheck(check, redact))
  return writeReport(redacted, terminal, json)
}

function parseEndpoint(endpoint: string | undefined): string {
  if (endpoint === undefined) throw new UsageError('--model and --api require --endpoint')
  const url = parseUrl(endpoint)
  // The value is not printed: it may contain a password.
  const isUsable = url && /^https?:$/.test(url.protocol) && !url.username && !url.password
  if (!isUsable || url.search !== '') {
    throw new UsageError(
      '--endpoint must be an http:// or https:// URL without user info and query',
    )
  }
  const path = url.pathname
    .replace(/\/+$/, '')
    .replace(/\/(?:chat\/completions|responses|messages)$/, '')
  // The path that most servers and clients use.
  return `${url.origin}${path === '' ? '/v1' : path}`
}

export const doctor: Command = {
  name: 'doctor',
  summary: 'check a setup or an endpoint, and print fixes',
  usage: [
    'turnstream doctor [--codex] [options of serve] [--json]',
    'turnstream doctor --endpoint <url> [--api <api>] [--model <model>] [--json]',
  ],
  about: `Without --endpoint, checks what "turnstream serve" would use here: configuration, store, port, keys,
machine limits, providers, codex, tools and clock. Pass the options of your server. Changes nothing
and can run beside a server. Reads every record of an embedded store that is not in use, which takes
seconds per gigabyte; no server can open the store meanwhile.

With --endpoint, tests a server: responses, streams, tool calls and errors; with --api responses
also background, resume, cancel and whatever else it may store. Reports what clients would not
expect. Costs a few thousand tokens.`,
  options: { config: CONFIG_OPTION, ...CODEX_OPTIONS, ...ENDPOINT_OPTIONS },
  furtherOptions: SETTING_OPTIONS,
  examples: [
    'turnstream doctor',
    'turnstream doctor --store ./data',
    'turnstream doctor --store redis://localhost:6379',
    'turnstream doctor --endpoint http://localhost:11434/v1 --model qwen3',
  ],
  exitCodes: '0 nothing failed (warnings possible) · 1 a check failed · 2 usage error',
  run,
}

export interface Setup {
  readonly sources: ConfigurationSources
  readonly clock: Clock
  readonly onProgress: (text: string) => void
}

/** Checks everything a server would use. Changes nothing. Takes seconds, plus the time to read the store. */
async function setupChecks(setup: Setup): Promise<Check[]> {
  let configuration: Configuration
  try {
    configuration = readConfiguration(setup.sources)
  } catch (error) {
    // Usage errors are not part of the report.
    if (!(error instanceof UsageError) || error.message.startsWith('--')) throw error
    const fix = 'Correct it, then check with: turnstream config print'
    const refused = redactCheck(CONFIGURATION.fail(error.message, fix), redactShapes)
    return [
      refused,
      nodeCheck(thisMachine()),
      checkNamed('all else').skipped('needs a valid configuration'),
    ]
  }
  const checks = await checkAll(setup, configuration)
  const redact = redacting(collectSecrets(configuration))
  return checks.map((check) => redactCheck(check, redact))
}

async function checkAll(setup: Setup, configuration: Configuration): Promise<Check[]> {
  const { clock } = setup
  const machine = thisMachine()
  const { settings, cwd } = configuration
  const portCheck = checkPort(settings, clock)
  const [port, stored, providers, codex, tools] = await Promise.all([
    portCheck,
    checkStore(configuration, portCheck, setup),
    checkProviders(configuration, clock),
    codexChecks(configuration, clock),
    toolChecks(configuration, clock),
  ])
  const keys = checkKeys(settings, cwd)
  const readings = [stored.time, ...providers.map(({ time }) => time)]
  return [
    CONFIGURATION.ok('valid'),
    nodeCheck(machine),
    memoryCheck(machine, settings, keys.count),
    filesCheck(machine, settings),
    port.check,
    exposureCheck(settings),
    keys.check,
    ...(settings.keysFile === undefined ? [] : [tokensCheck(configuration)]),
    ...secretsChecks(configuration),
    ...stored.checks,
    ...providers.map(({ check }) => check),
    ...codex,
    defaultProviderCheck(configuration),
    ...tools,
    clockCheck(readings.flatMap((reading) => reading ?? [])),
  ]
}

async function checkStore(
  { store }: Configuration,
  port: ReturnType<typeof checkPort>,
  setup: Setup,
): Promise<{ checks: readonly Check[]; time?: ClockReading }> {
  if (store.kind === 'redis') return checkRedis(store, setup.clock)
  if (store.kind === 'memory') {
    const found = 'memory: turns are lost when the process ends'
    return { checks: [STORE.warn(found, 'To keep turns: --store <directory>')] }
  }
  const { runningAt } = await port
  const { directory } = store
  try {
    return { checks: await embeddedChecks(directory, runningAt, setup) }
  } catch (error) {
    // The rest of the report is still useful.
    const fix = `Look at the directory and its owner: ls -la ${directory}`
    return { checks: [STORE.fail(`${directory}: ${messageOf(error)}`, fix)] }
  }
}

function exposureCheck(settings: Settings): Check {
  const { ok, warn, fail } = checkNamed('exposure')
  const { host, keysFile, allowPublicWithoutKeys } = settings
  if (
    usageFault(() => refusePublic({ ...settings, allowPublicWithoutKeys: false })) === undefined
  ) {
    const who = keysFile === undefined ? 'this machine only' : 'clients with a key'
    return ok(`${host}, for ${who}`)
  }
  const found = `${host} is reachable from other machines without a key`
  const fix =
    'Create a key (turnstream keys add <tenant> --file turnstream.keys) and set TURNSTREAM_KEYS_FILE=turnstream.keys'
  if (allowPublicWithoutKeys) return warn(`${found}, as configured`, fix)
  return fail(found, fix)
}

function checkKeys({ keysFile }: Settings, cwd: string): { check: Check; count: number } {
  const { ok, warn, fail } = checkNamed('keys')
  if (keysFile === undefined) return { check: ok('no keys required'), count: 0 }
  const path = resolve(cwd, keysFile)
  const add = `turnstream keys add <tenant> --file ${path}`
  try {
    const count = readKeysFile(path).length
    if (count === 0) return { check: fail(`no keys in ${path}`, `Create one: ${add}`), count }
    const found = `${count === 1 ? 'a key' : `${count} keys`} in ${path}`
    const fix = `chmod 600 ${path}`
    if (isOpenTo(path, 0o022))
      return { check: fail(`${found}, writable by other users`, fix), count }
    if (isOpenTo(path, 0o044))
      return { check: warn(`${found}, readable by other users`, fix), count }
    return { check: ok(found), count }
  } catch (error) {
    if (!hasCode(error, 'KEYS_FILE_INVALID')) throw error
    const { message } = error
    const list = `turnstream keys list --file ${path}`
    let fix = `Let this user read it, then: ${list}`
    if (message.includes('no such file')) fix = `Create it with a first key: ${add}`
    else if (/\bline \d/.test(message)) fix = `Correct or remove that line, then: ${list}`
    return { check: fail(message, fix), count: 0 }
  }
}

/** Instances that share a store must sign tokens with the same secret. */
function tokensCheck({ settings, store }: Configuration): Check {
  const { ok, warn } = checkNamed('stream tokens')
  if (settings.streamTokenSecret !== undefined) return ok('signed with your secret')
  if (store.kind !== 'redis') return ok('signed with a random secret, valid until restart')
  return warn(
    'other instances on this Redis refuse these tokens',
    'Set the same on all: TURNSTREAM_STREAM_TOKEN_SECRET="$(openssl rand -base64 32)"',
  )
}

function secretsChecks(configuration: Configuration): Check[] {
  const { ok, skipped, warn } = checkNamed('secrets')
  try {
    const warnings = findWarnings(configuration)
    if (warnings.length === 0) return [ok('not readable by other users')]
    return warnings.map((warning) => {
      // A warning is the problem and, after a colon, the fix.
      const [, found = warning, fix = ''] = /^(.*?): (.*)$/s.exec(warning) ?? []
      if (/^(chmod|set) /.test(fix)) return warn(found, fix)
      return warn(warning, 'Use https:// in baseUrl of turnstream.config.json')
    })
  } catch {
    // Another check reports which file and why.
    return [skipped('some files could not be checked')]
  }
}
