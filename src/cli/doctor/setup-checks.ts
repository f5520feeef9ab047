import type { Clock } from '../../async/clock.ts'
import { redacting, redactShapes } from '../../protocol/redaction.ts'
import { UsageError } from '../command.ts'
import {
  type Configuration,
  type ConfigurationSources,
  readConfiguration,
} from '../serve/configuration.ts'
import { providerPlans } from '../serve/providers.ts'
import { secretOf } from '../serve/secrets.ts'
import { type StoreChoice, secretsOf, storeOf } from '../serve/store.ts'
import { exposureCheck, keysLook, secretsChecks, tokensCheck } from './access-check.ts'
import { type Check, fail, ok, redactCheck, skipped, warn } from './check.ts'
import { type ClockReading, clockCheck } from './clock-check.ts'
import { embeddedChecks } from './embedded-check.ts'
import { filesCheck, type Machine, memoryCheck, nodeCheck } from './machine-check.ts'
import { portLook } from './port-check.ts'
import { defaultProviderCheck, providerLooks } from './provider-check.ts'
import { redisChecks, unreachedCheck } from './redis-check.ts'
import { redisFacts } from './redis-facts.ts'
import { messageOf } from './words.ts'

export interface Setup {
  readonly sources: ConfigurationSources
  readonly machine: Machine
  readonly clock: Clock
  /** Called now and then while a large store is verified. */
  readonly onProgress: (text: string) => void
}

/** Everything that a server would be started with. Changes nothing. Takes seconds, plus the time to read the store. */
export async function setupChecks(setup: Setup): Promise<Check[]> {
  const configuration = configurationOf(setup.sources)
  if ('verdict' in configuration) {
    const refused = redactCheck(configuration, redactShapes)
    return [refused, nodeCheck(setup.machine), skipped('all else', 'needs a configuration')]
  }
  const checks = await checksOf(setup, configuration)
  const redact = redacting(secretsIn(setup.sources, configuration))
  return checks.map((check) => redactCheck(check, redact))
}

function configurationOf(sources: ConfigurationSources): Configuration | Check {
  try {
    const configuration = readConfiguration(sources)
    storeOf(configuration.settings, sources.cwd)
    return configuration
  } catch (error) {
    // What is wrong with the command line itself is not for this report.
    if (!(error instanceof UsageError) || error.message.startsWith('--')) throw error
    const fix = 'Correct it there; what is understood then: turnstream config print'
    return fail('configuration', error.message, fix)
  }
}

async function checksOf(
  { sources, machine, clock, onProgress }: Setup,
  configuration: Configuration,
): Promise<Check[]> {
  const { settings, providers: providerSettings } = configuration
  const store = storeOf(settings, sources.cwd)
  const choice = { ...settings, env: sources.env, settings: providerSettings }
  const port = portLook(settings, clock)
  const [{ check: portCheck }, stored, providers] = await Promise.all([
    port,
    storeLook(store, port, { clock, onProgress }),
    providerLooks(choice, clock),
  ])
  const keys = keysLook(settings, sources.cwd)
  const readings = [stored.time, ...providers.map(({ time }) => time)]
  return [
    ok('configuration', 'understood'),
    nodeCheck(machine),
    memoryCheck(machine, settings, keys.count),
    filesCheck(machine, settings),
    portCheck,
    exposureCheck(settings),
    keys.check,
    ...(settings.keysFile === undefined ? [] : [tokensCheck(settings, store)]),
    ...secretsChecks(sources, configuration),
    ...stored.checks,
    ...providers.map(({ check }) => check),
    defaultProviderCheck(choice),
    clockCheck(readings.flatMap((reading) => reading ?? [])),
  ]
}

interface StoreLook {
  readonly checks: readonly Check[]
  readonly time?: ClockReading
}

async function storeLook(
  store: StoreChoice,
  port: ReturnType<typeof portLook>,
  { clock, onProgress }: Pick<Setup, 'clock' | 'onProgress'>,
): Promise<StoreLook> {
  switch (store.kind) {
    case 'memory': {
      const found = 'memory: every turn is gone when the process ends'
      return { checks: [warn('store', found, 'For more than a trial: --store <directory>')] }
    }
    case 'embedded': {
      const { runningAt } = await port
      const { directory } = store
      const checks = embeddedChecks({ directory, runningAt, clock, onProgress })
      return { checks: await checks.catch((error: unknown) => [unforeseen(directory, error)]) }
    }
    case 'redis':
      try {
        const facts = await redisFacts({ ...store, clock })
        return { checks: redisChecks(facts, store.url), time: facts.time }
      } catch (error) {
        return { checks: [unreachedCheck(error, store.url)] }
      }
  }
}

/** Whatever happens, the rest of the report is worth having. */
function unforeseen(directory: string, error: unknown): Check {
  const fix = `See what is there, and whose it is: ls -la ${directory}`
  return fail('store', `${directory}: ${messageOf(error)}`, fix)
}

/** What must not be seen in any report. */
function secretsIn({ env, cwd }: ConfigurationSources, configuration: Configuration): string[] {
  const { settings, providers } = configuration
  const plans = providerPlans({ ...settings, env, settings: providers })
  const keys = plans.map(({ keyVariable = '' }) => {
    try {
      return secretOf(env, keyVariable) ?? ''
    } catch {
      return env[keyVariable] ?? '' // it is set twice, or its file is gone
    }
  })
  return [...keys, ...secretsOf(storeOf(settings, cwd)), settings.streamTokenSecret ?? '']
}
