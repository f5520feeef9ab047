import { CONFIG_FILE } from './configuration.ts'
import { flagOf, SETTING_NAMES, SETTINGS, type Setting, type SettingName } from './settings.ts'

const WIDTH = 28

function optionLine(name: SettingName): string {
  const { about, standard, isSwitch }: Setting<unknown> = SETTINGS[name]
  const flag = isSwitch ? flagOf(name) : `${flagOf(name)} <${wordFor(name)}>`
  const head = `  --${flag}`
  const gap = head.length < WIDTH ? ' '.repeat(WIDTH - head.length) : `\n${' '.repeat(WIDTH)}`
  return `${head}${gap}${about}${standard === undefined ? '' : ` (${standard})`}`
}

function wordFor(name: SettingName): string {
  switch (name) {
    case 'host':
    case 'store':
      return 'where'
    case 'storePrefix':
    case 'instance':
    case 'defaultProvider':
      return 'name'
    case 'keysFile':
      return 'file'
    case 'streamTokenSecret':
      return 'text'
    case 'corsOrigins':
    case 'allowedHosts':
      return 'list'
    case 'storeTimeout':
    case 'retention':
    case 'lease':
    case 'heartbeat':
    case 'shutdownGrace':
    case 'maxTurnTime':
    case 'headersTimeout':
    case 'requestTimeout':
    case 'keepAliveTimeout':
    case 'writeTimeout':
      return 'time'
    default:
      return 'n'
  }
}

export const SERVE_HELP = `turnstream serve: run turns, and serve them over HTTP

Usage
  turnstream serve [options]

Turns are kept in ./.turnstream unless said otherwise. Providers come from the environment:
OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, OPENAI_COMPATIBLE_BASE_URL with
OPENAI_COMPATIBLE_MODEL. Without any, recorded turns are played.

Options
  --config <file>           settings as JSON (./${CONFIG_FILE}, if it is there)
  --json                    the first line and what is logged as JSON objects
${SETTING_NAMES.map(optionLine).join('\n')}

Each option is also a key of the file (shutdownGrace) and a variable of the environment
(TURNSTREAM_SHUTDOWN_GRACE). The command line wins over the environment, and that over the file.

Examples
  turnstream serve
  turnstream serve --port 8080 --store redis://localhost:6379

Exit codes
  0 it was asked to end, and did · 1 it could not start, or was ended at once · 2 the options make no sense
`
