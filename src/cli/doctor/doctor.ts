import { resolve } from 'node:path'
import type { Clock } from '../../async/clock.ts'
import { hasCode } from '../../protocol/errors.ts'
import { redacting, redactShapes } from '../../protocol/redaction.ts'
import { parseUrl } from '../../protocol/url.ts'
import { type Command, type ExitCode, parseOptions, UsageError } from '../command.ts'
import { environmentKey } from '../gateway-client.ts'
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
import { type Check, fail, ok, redactCheck, skipped, warn, writeReport } from './check.ts'
import { embeddedChecks } from './embedded-checks.ts'
import { endpointChecks } from './endpoint/endpoint-checks.ts'
import {
  type ClockReading,
  clockCheck,
  filesCheck,
  lookAtPort,
  type Machine,
  memoryCheck,
  nodeCheck,
  thisMachine,
} from './machine-checks.ts'
import { defaultProviderCheck, lookAtProviders } from './provider-checks.ts'
import { lookAtRedis } from './redis-checks.ts'

const ENDPOINT_OPTIONS = {
  endpoint: {
    value: 'url',
    about: `such as http://localhost:11434/v1; its key comes from OPENAI_API_KEY or
TURNSTREAM_KEY, or from the file that either with _FILE at its end names`,
  },
  model: { value: 'model', about: 'the model to ask (the first that the server lists)' },
  json: {
    about: 'one JSON object: {"ok","failed","warned","checks":[{"name","verdict","found",…}]}',
  },
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
  const { endpoint, model, json } = parseOptions(args, { options: ENDPOINT_OPTIONS }).values
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
  const url = parseUrl(endpoint)
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

export const doctor: Command = {
  name: 'doctor',
  summary: 'find out what is wrong, and how to put it right',
  usage: [
    'turnstream doctor [options of serve] [--json]',
    'turnstream doctor --endpoint <url> [--model <model>] [--json]',
  ],
  about: `Without --endpoint it looks at what "turnstream serve" would be started with here: configuration, store,
port, keys, limits of the machine, providers, clock. It changes nothing, and may run beside a server. Give
it the options that the server gets. It reads every record of an embedded store that no process uses, which
takes seconds per gigabyte; meanwhile no server can open that store.

With --endpoint it asks a server that speaks Chat Completions for answers, streams, tool calls and
refusals, and says where they differ from what clients expect. That costs some thousand tokens.`,
  options: { config: CONFIG_OPTION, ...ENDPOINT_OPTIONS },
  furtherOptions: SETTING_OPTIONS,
  examples: [
    'turnstream doctor',
    'turnstream doctor --store ./data',
    'turnstream doctor --store redis://localhost:6379',
    'turnstream doctor --endpoint http://localhost:11434/v1 --model qwen3',
  ],
  exitCodes:
    '0 nothing failed; there may be warnings · 1 something failed · 2 the command makes no sense',
  run,
}

export interface Setup {
  readonly sources: ConfigurationSources
  readonly machine: Machine
  readonly clock: Clock
  /** Called now and then while a large store is verified. */
  readonly onProgress: (text: string) => void
}

/** Everything that a server would be started with. Changes nothing. Takes seconds, plus the time to read the store. */
async function setupChecks(setup: Setup): Promise<Check[]> {
  let configuration: Configuration
  try {
    configuration = readConfiguration(setup.sources)
  } catch (error) {
    // What is wrong with the command line itself is not for this report.
    if (!(error instanceof UsageError) || error.message.startsWith('--')) throw error
    const fix = 'Correct it there; what is understood then: turnstream config print'
    const refused = redactCheck(fail('configuration', error.message, fix), redactShapes)
    return [refused, nodeCheck(setup.machine), skipped('all else', 'needs a configuration')]
  }
  const checks = await checkAll(setup, configuration)
  const redact = redacting(collectSecrets(configuration))
  return checks.map((check) => redactCheck(check, redact))
}

async function checkAll(setup: Setup, configuration: Configuration): Promise<Check[]> {
  const { machine, clock } = setup
  const { settings, cwd } = configuration
  const portLook = lookAtPort(settings, clock)
  const [port, stored, providers] = await Promise.all([
    portLook,
    lookAtStore(configuration, portLook, setup),
    lookAtProviders(configuration, clock),
  ])
  const keys = lookAtKeys(settings, cwd)
  const readings = [stored.time, ...providers.map(({ time }) => time)]
  return [
    ok('configuration', 'understood'),
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
    defaultProviderCheck(configuration),
    clockCheck(readings.flatMap((reading) => reading ?? [])),
  ]
}

async function lookAtStore(
  { store }: Configuration,
  port: ReturnType<typeof lookAtPort>,
  setup: Setup,
): Promise<{ checks: readonly Check[]; time?: ClockReading }> {
  switch (store.kind) {
    case 'memory': {
      const found = 'memory: every turn is gone when the process ends'
      return { checks: [warn('store', found, 'For more than a trial: --store <directory>')] }
    }
    case 'embedded': {
      const { runningAt } = await port
      const { directory } = store
      try {
        return { checks: await embeddedChecks(directory, runningAt, setup) }
      } catch (error) {
        // Whatever happens, the rest of the report is worth having.
        const fix = `See what is there, and whose it is: ls -la ${directory}`
        return { checks: [fail('store', `${directory}: ${messageOf(error)}`, fix)] }
      }
    }
    case 'redis':
      return lookAtRedis(store, setup.clock)
  }
}

/** Whether others reach a server that asks nobody for a key. */
function exposureCheck(settings: Settings): Check {
  const name = 'exposure'
  const { host, keysFile, allowPublicWithoutKeys } = settings
  try {
    refusePublic({ ...settings, allowPublicWithoutKeys: false })
    const who = keysFile === undefined ? 'this machine alone' : 'those who have a key'
    return ok(name, `${host}, for ${who}`)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
  }
  const found = `${host} can be reached from other machines, and no key is asked for`
  const fix =
    'Make a key (turnstream keys add <tenant> --file turnstream.keys) and set TURNSTREAM_KEYS_FILE=turnstream.keys'
  if (allowPublicWithoutKeys) return warn(name, `${found}, as allowed`, fix)
  return fail(name, found, fix)
}

/** The check of the keys, and how many there are. */
function lookAtKeys({ keysFile }: Settings, cwd: string): { check: Check; count: number } {
  const name = 'keys'
  if (keysFile === undefined) return { check: ok(name, 'none are needed'), count: 0 }
  const path = resolve(cwd, keysFile)
  const add = `turnstream keys add <tenant> --file ${path}`
  try {
    const count = readKeysFile(path).length
    if (count === 0) {
      return { check: fail(name, `there are no keys in ${path}`, `Make one: ${add}`), count }
    }
    const found = `${count === 1 ? 'a key' : `${count} keys`} in ${path}`
    const fix = `chmod 600 ${path}`
    if (isOpenTo(path, 0o022)) {
      return { check: fail(name, `${found}, to which other users can add theirs`, fix), count }
    }
    if (isOpenTo(path, 0o044)) {
      return { check: warn(name, `${found}, which other users can read`, fix), count }
    }
    return { check: ok(name, found), count }
  } catch (error) {
    if (!hasCode(error, 'KEYS_FILE_INVALID')) throw error
    const { message } = error
    const list = `turnstream keys list --file ${path}`
    let fix = `Let this user read it, then: ${list}`
    if (message.includes('no such file')) fix = `Make it with its first key: ${add}`
    else if (/\bline \d/.test(message)) fix = `Correct or remove that line, then: ${list}`
    return { check: fail(name, message, fix), count: 0 }
  }
}

/** Several instances on one store have to sign with the same secret. */
function tokensCheck({ settings, store }: Configuration): Check {
  const name = 'stream tokens'
  if (settings.streamTokenSecret !== undefined) return ok(name, 'signed with a secret of your own')
  if (store.kind !== 'redis') return ok(name, 'signed with a random secret, until the next start')
  return warn(
    name,
    'each instance on this Redis refuses the tokens of the others',
    'Give all of them the same: TURNSTREAM_STREAM_TOKEN_SECRET="$(openssl rand -base64 32)"',
  )
}

/** Who else can see the secrets that a server would be started with. */
function secretsChecks(configuration: Configuration): Check[] {
  const name = 'secrets'
  try {
    const warnings = findWarnings(configuration)
    if (warnings.length === 0) return [ok(name, 'nobody else can read them')]
    return warnings.map((warning) => {
      // They say what is wrong and, after a colon, what to do about it.
      const [, found = warning, fix = ''] = /^(.*?): (.*)$/s.exec(warning) ?? []
      if (/^(chmod|set) /.test(fix)) return warn(name, found, fix)
      return warn(name, warning, 'Give it an https:// address: baseUrl in turnstream.config.json')
    })
  } catch {
    // Another check says which, and why.
    return [skipped(name, 'not all of them can be read')]
  }
}
