import { redacting } from '../../protocol/redaction.ts'
import { type Command, EXIT, type ExitCode } from '../command.ts'
import type { Terminal } from '../terminal.ts'
import { SERVE_HELP } from './help.ts'
import { createJournal } from './journal.ts'
import { FLAGS, parseServeOptions } from './options.ts'
import { StartError } from './start-error.ts'
import { secretsOf } from './store.ts'

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const options = parseServeOptions(args, terminal)
  const { json, providers, store, settings } = options
  const redact = redacting([
    ...providers.secrets,
    ...secretsOf(store),
    settings.streamTokenSecret ?? '',
  ])
  const journal = createJournal(terminal, { json, redact, logContent: settings.logContent })
  terminal.onCrash((error) => {
    journal.error(error)
    terminal.exit(EXIT.failed)
  })
  // The server takes longer to load than the other commands to run.
  const { runServer } = await import('./run-server.ts')
  try {
    return await runServer(options, { journal, terminal })
  } catch (error) {
    if (!(error instanceof StartError)) {
      journal.error(error)
      return EXIT.failed
    }
    const message = redact(error.message)
    terminal.writeError(
      json ? `${JSON.stringify({ error: { message } })}\n` : `turnstream: ${message}\n`,
    )
    return EXIT.failed
  }
}

export const serveCommand: Command = {
  summary: 'start the gateway: run turns, and serve them over HTTP',
  help: SERVE_HELP,
  options: FLAGS,
  run,
}
