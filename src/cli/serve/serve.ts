import { type Command, describeCommand, EXIT, reportFailure } from '../command.ts'
import { CONFIG_OPTION, SETTING_OPTIONS } from './configuration.ts'
import { createLogger } from './logger.ts'
import { parseServeOptions } from './options.ts'
import { StartError } from './store.ts'

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

export const serve: Command = {
  ...describeCommand({
    name: 'serve',
    summary: 'start the gateway: run turns, and serve them over HTTP',
    usage: ['turnstream serve [options]'],
    about: `Turns are kept in ./.turnstream unless said otherwise. Providers come from the environment:
OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, OPENAI_COMPATIBLE_BASE_URL with
OPENAI_COMPATIBLE_MODEL. Without any, recorded turns are played.

Each option is also a key of the file (shutdownGrace) and a variable of the environment
(TURNSTREAM_SHUTDOWN_GRACE). The command line wins over the environment, and that over the file.`,
    options: {
      config: CONFIG_OPTION,
      json: { about: 'the first line and what is logged as JSON objects' },
      ...SETTING_OPTIONS,
    },
    examples: ['turnstream serve', 'turnstream serve --port 8080 --store redis://localhost:6379'],
    exitCodes:
      '0 it was asked to end, and did · 1 it could not start, or was ended at once · 2 the options make no sense',
  }),
  run,
}
