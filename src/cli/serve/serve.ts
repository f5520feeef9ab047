import { type Command, EXIT, reportFailure } from '../command.ts'
import { CONFIG_FILE, FLAGS } from './configuration.ts'
import { createLogger } from './logger.ts'
import { parseServeOptions } from './options.ts'
import { SETTING_NAMES, SETTINGS, type Setting, type SettingName, toFlag } from './settings.ts'
import { StartError } from './store.ts'

const WIDTH = 28

function optionLine(name: SettingName): string {
  const { about, standard, placeholder }: Setting<unknown> = SETTINGS[name]
  const flag = `  --${toFlag(name)}${placeholder === undefined ? '' : ` <${placeholder}>`}`
  const gap = flag.length < WIDTH ? ' '.repeat(WIDTH - flag.length) : `\n${' '.repeat(WIDTH)}`
  return `${flag}${gap}${about}${standard === undefined ? '' : ` (${standard})`}`
}

const HELP = `turnstream serve: start the gateway: run turns, and serve them over HTTP

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

const run: Command['run'] = async (args, terminal) => {
  const options = parseServeOptions(args, terminal)
  const { json, redact, settings } = options
  const logger = createLogger(terminal, { json, redact, logContent: settings.logContent })
  terminal.onCrash((error) => {
    logger.error(error)
    terminal.exit(EXIT.failed)
  })
  // The server takes longer to load than the other commands to run.
  const { runServer } = await import('./run-server.ts')
  try {
    return await runServer(options, { logger, terminal })
  } catch (error) {
    if (!(error instanceof StartError)) {
      logger.error(error)
      return EXIT.failed
    }
    // Standard output is for the banner, which programs wait for.
    const write = async (text: string) => terminal.writeError(text)
    return reportFailure({ message: redact(error.message) }, { ...terminal, write }, json)
  }
}

export const serve: Command = { help: HELP, options: FLAGS, run }
