import { printable } from '@turnstream/core/internal/protocol/printable'
import { REDACTED, redacting } from '@turnstream/core/internal/protocol/redaction'
import { parseUrl } from '@turnstream/core/internal/protocol/url'
import type { ConfiguredProvider } from '../turns/providers.ts'
import { type Command, EXIT, parseAction } from './command.ts'
import {
  CONFIG_OPTION,
  type Configuration,
  parseSources,
  readConfiguration,
  SETTING_OPTIONS,
  type SettingEntry,
} from './serve/configuration.ts'
import {
  activeProviders,
  collectSecrets,
  KNOWN_PROVIDERS,
  providerPlans,
  readKey,
  withAliases,
} from './serve/providers.ts'
import { SETTINGS, type Setting } from './serve/settings.ts'
import type { ToolSetting } from './serve/tool-settings.ts'
import type { Terminal } from './terminal.ts'

const ACTIONS = ['print'] as const

const run: Command['run'] = async (args, terminal) => {
  const isMissing = args[0]?.startsWith('-')
  parseAction('config', isMissing ? undefined : args[0], ACTIONS)
  const { json, sources } = parseSources(args.slice(1), terminal)
  const configuration = readConfiguration(sources)
  const settings = configuration.entries.map((each) => printedSetting(each, sources.env))
  const active = activeProviders(configuration)
  const providers = printedProviders(configuration, active)
  const { aliases } = withAliases(active, configuration)
  const tools = configuration.toolSettings.map(printedTool)
  // Values are already masked; this is a second line of defence.
  const redact = redacting(collectSecrets(configuration))
  const clean = (line: string) => redact(printable(line))
  const replacer = (_key: string, each: unknown) => (typeof each === 'string' ? redact(each) : each)
  const lines = () => [
    ...settingLines(settings, clean, terminal),
    '',
    ...providers.flatMap(providerLines).map(clean),
    ...aliases.map(({ alias, model }) => clean(`alias ${alias}: ${model}`)),
    ...tools.map(({ name, kind, target }) => clean(`tool ${name}: ${kind} ${target}`)),
    '',
  ]
  const text = json
    ? `${JSON.stringify({ settings, providers, aliases, tools }, replacer)}\n`
    : lines().join('\n')
  await terminal.write(text)
  return EXIT.done
}

/** `value` is null when unset and without a default; `otherwise` is what applies then. */
export function printedSetting({ name, written }: SettingEntry, env: Terminal['env']) {
  const { secret, about }: Setting<unknown> = SETTINGS[name]
  if (written === undefined) {
    // The description of a setting ends with what applies without it, in brackets.
    const otherwise = /\(([^()]*)\)$/.exec(about)?.[1] ?? 'none'
    return { name, value: null, source: 'default', origin: undefined, otherwise }
  }
  const { value, source, origin: variable } = written
  const isInFile = source === 'environment' && !env[variable]?.trim()
  const origin = isInFile ? `${variable}_FILE` : variable
  // Only the credentials of a store URL are secret.
  const shown = secret !== undefined && name !== 'store' ? REDACTED : withoutCredentials(value)
  return { name, value: shown, source, origin: source === 'default' ? undefined : origin }
}

function withoutCredentials(value: unknown): string | number | boolean | readonly string[] {
  if (Array.isArray(value)) return value.map((each) => maskedUrl(String(each)))
  if (typeof value === 'number' || typeof value === 'boolean') return value
  return maskedUrl(String(value))
}

function maskedUrl(text: string): string {
  if (!/^[a-z][\w+.-]*:\/\//i.test(text)) return text
  const url = parseUrl(text)
  if (url === undefined) return REDACTED
  const { protocol, username, password, host, pathname, search } = url
  const user = username === '' && password === '' ? '' : `${REDACTED}@`
  return `${protocol}//${user}${host}${pathname === '/' ? '' : pathname}${search === '' ? '' : `?${REDACTED}`}`
}

/** An entry of `tools` without headers, arguments and variables, which may hold secrets. */
function printedTool(setting: ToolSetting) {
  if ('http' in setting) {
    return { name: setting.name, kind: 'http', target: maskedUrl(setting.http.url) }
  }
  if ('module' in setting) return { name: '*', kind: 'module', target: setting.module }
  const { name, mcp } = setting
  const target = 'url' in mcp ? maskedUrl(mcp.url) : mcp.command
  return { name: `${name}__*`, kind: 'mcp', target }
}

function settingLines(
  settings: readonly ReturnType<typeof printedSetting>[],
  clean: (line: string) => string,
  { style }: Terminal,
) {
  const rows = settings.map(({ name, value, otherwise, source, origin }) => {
    const shown = Array.isArray(value) ? value.join(', ') : String(value ?? `(${otherwise})`)
    return [name, shown, origin === undefined ? source : `${source}: ${origin}`] as const
  })
  const width = (at: 0 | 1) => Math.min(40, Math.max(...rows.map((row) => row[at].length)))
  const [names, values] = [width(0), width(1)]
  return rows.map(([name, value, origin]) => {
    const text = clean(`${name.padEnd(names)}  ${value.padEnd(values)}  ${origin}`.trimEnd())
    return origin === 'default' ? style('dim', text) : text
  })
}

/** The providers without their keys, the default first, then other active ones. A null `baseUrl` is the vendor's. */
function printedProviders(configuration: Configuration, active: readonly ConfiguredProvider[]) {
  const plans = providerPlans(configuration)
  const ids = new Set([...active.map(({ provider }) => provider.id), ...plans.map(({ id }) => id)])
  return [...ids].map((id) => {
    const called = active.find(({ provider }) => provider.id === id)
    // The scripted provider needs none.
    const plan = plans.find((each) => each.id === id)
    const offered = plan === undefined ? [] : KNOWN_PROVIDERS[plan.kind].models
    return {
      id,
      kind: plan?.kind ?? id,
      active: called !== undefined,
      hasKey: plan !== undefined && readKey(plan, configuration.env) !== undefined,
      ...(plan?.keyVariable !== undefined && { keyVariable: plan.keyVariable }),
      baseUrl: plan?.setting.baseUrl ?? null,
      models: called?.models ?? plan?.setting.models ?? offered,
      defaultModel: called?.defaultModel ?? null,
    }
  })
}

type PrintedProvider = ReturnType<typeof printedProviders>[number]

function providerLines(provider: PrintedProvider, at: number): string[] {
  const { id, active, hasKey, keyVariable, baseUrl, models, defaultModel } = provider
  const state = active ? (at === 0 ? 'default' : 'active') : 'inactive'
  const needsUrl = !active && id === 'openai-compatible'
  const variable = needsUrl ? 'OPENAI_COMPATIBLE_BASE_URL' : keyVariable
  const isSet = hasKey && !needsUrl
  const key = variable === undefined ? '' : `, ${variable} is ${isSet ? 'set' : 'not set'}`
  const where = baseUrl === null ? '' : `, at ${baseUrl}`
  const listed = models === 'any' ? ['any'] : models
  const names = [...new Set([...(defaultModel === null ? [] : [defaultModel]), ...listed])]
  return [
    `provider ${id}: ${state}${key}${where}`,
    ...(names.length === 0 ? [] : [`  models: ${names.join(', ')}`]),
  ]
}

export const config: Command = {
  name: 'config',
  summary: 'print the settings of a server and their sources',
  usage: ['turnstream config print [options of serve] [--json]'],
  about: `Prints each setting with its value and source: default, file, environment or command line. Later
sources win. Then lists the providers and their models. Secrets are redacted.`,
  options: {
    config: CONFIG_OPTION,
    json: {
      about: 'print one JSON object: {"settings":[…],"providers":[…],"aliases":[…],"tools":[…]}',
    },
  },
  furtherOptions: SETTING_OPTIONS,
  words: { takes: 'one action', min: 1, max: 1, choices: ACTIONS },
  examples: ['turnstream config print --store redis://localhost:6379'],
  exitCodes: '0 done · 2 invalid option, variable or file',
  run,
}
