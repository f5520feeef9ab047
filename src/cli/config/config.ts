import { suggestion } from '../../protocol/nearest.ts'
import { redacting } from '../../protocol/redaction.ts'
import { type Command, EXIT, type ExitCode, UsageError } from '../command.ts'
import { printable } from '../printable.ts'
import { readSettings } from '../serve/configuration.ts'
import { FLAGS, parseFlags } from '../serve/options.ts'
import { providersFrom } from '../serve/providers.ts'
import { secretsOf, storeOf } from '../serve/store.ts'
import type { Terminal } from '../terminal.ts'
import { type ShownProvider, shownProviders } from './provider-list.ts'
import { type ShownSetting, shownSetting } from './settings-list.ts'

const HELP = `turnstream config: what a server would be started with here

Usage
  turnstream config print [options of serve] [--json]

Prints every setting with its value and where that comes from: a default, the file, the environment or
the command line, of which the last wins. Then the providers, with their models. Secrets are not shown.

Options
  --config <file>    settings as JSON (./turnstream.config.json, if it is there)
  --json             one JSON object: {"settings":[…],"providers":[…]}
  …                  every option of "turnstream serve"

Example
  turnstream config print --store redis://localhost:6379

Exit codes
  0 done · 2 the options, the environment or the file make no sense
`

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const [action = '', ...rest] = args
  if (action !== 'print') throw unknownAction(action)
  const { config, json, ...flags } = parseFlags(rest)
  const { env, cwd } = terminal
  const sources = { flags, env, cwd, ...(typeof config === 'string' && { configFile: config }) }
  const { settings, values, providers } = readSettings(sources)
  const choice = { ...values, env, settings: providers }
  const shown = {
    settings: settings.map((each) => shownSetting(each, env)),
    providers: shownProviders(choice),
  }
  // Nothing of it should be a secret; this is for what nobody thought of.
  const redact = redacting([
    ...providersFrom(choice).secrets,
    ...secretsOf(storeOf(values, cwd)),
    values.streamTokenSecret ?? '',
  ])
  const blot = (_key: string, value: unknown) => (typeof value === 'string' ? redact(value) : value)
  // Line by line: of a long text only the beginning is kept.
  const lines = () => textOf(shown, terminal).split('\n').map(redact).join('\n')
  await terminal.write(json === true ? `${JSON.stringify(shown, blot)}\n` : lines())
  return EXIT.done
}

function unknownAction(action: string): UsageError {
  if (action === '' || action.startsWith('-')) return new UsageError('config takes one of print')
  return new UsageError(`config has no action of that name${suggestion(action, ['print'])}`)
}

interface Shown {
  readonly settings: readonly ShownSetting[]
  readonly providers: readonly ShownProvider[]
}

function textOf({ settings, providers }: Shown, { style }: Pick<Terminal, 'style'>): string {
  const rows = settings.map((each) => [each.name, valueOf(each), originOf(each)] as const)
  const width = (at: 0 | 1, most: number) =>
    Math.min(most, Math.max(...rows.map((row) => row[at].length)))
  const [names, values] = [width(0, 40), width(1, 40)]
  const lines = rows.map(([name, value, origin]) => {
    const text = `${name.padEnd(names)}  ${value.padEnd(values)}  ${origin}`.trimEnd()
    return origin === 'default' ? style('dim', text) : text
  })
  return printable(`${[...lines, '', ...providers.flatMap(providerLines)].join('\n')}\n`)
}

function valueOf({ value, otherwise }: ShownSetting): string {
  if (value === null) return `(${otherwise})`
  return Array.isArray(value) ? value.join(', ') : String(value)
}

function originOf({ source, origin }: ShownSetting): string {
  return origin === undefined ? source : `${source}: ${origin}`
}

function providerLines(provider: ShownProvider, at: number): string[] {
  const { id, active, hasKey, keyVariable, baseUrl, models, defaultModel } = provider
  const state = active ? (at === 0 ? 'the default' : 'there') : 'not there'
  const told = keyVariable === undefined ? '' : `, ${hasKey ? 'with' : 'without'} ${keyVariable}`
  const where = baseUrl === null ? '' : `, at ${baseUrl}`
  const listed = models === 'any' ? ['any'] : models
  const names = [...new Set([...(defaultModel === null ? [] : [defaultModel]), ...listed])]
  return [
    `provider ${id}: ${state}${told}${where}`,
    ...(names.length === 0 ? [] : [`  models: ${names.join(', ')}`]),
  ]
}

export const configCommand: Command = {
  summary: 'print what a server would be started with, and where each setting comes from',
  help: HELP,
  options: FLAGS,
  words: ['print'],
  run,
}
