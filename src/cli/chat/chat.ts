import { parseArgs } from 'node:util'
import { type Command, EXIT, type ExitCode, UsageError } from '../command.ts'
import { reportRemoteError } from '../remote/errors.ts'
import { gatewayOf } from '../remote/gateway-client.ts'
import type { Terminal } from '../terminal.ts'
import { jsonLine, printable } from '../text.ts'
import { ChatView } from './chat-view.ts'
import { Conversation, type Listener } from './conversation.ts'

const HELP = `turnstream chat: talk with a model through a running gateway

Usage
  turnstream chat [--model <model>] [--thread <id>]          in the terminal
  turnstream chat [options] <prompt>                         one answer, then it ends
  echo <prompt> | turnstream chat [options]                  the same

Ctrl-C stops an answer; at the prompt, Ctrl-C or Ctrl-D leaves and /help lists the commands. A broken
connection is made again, and the answer continues where it was.

Options
  --url <url>        the gateway (TURNSTREAM_URL, or http://127.0.0.1:4010)
  --model <model>    <provider>/<model>, such as scripted/thinking (the default of the gateway)
  --thread <id>      continue a thread
  --json             each snapshot as a JSON object, one to a line

A gateway with keys is sent the one in TURNSTREAM_KEY, or in the file that TURNSTREAM_KEY_FILE names.

Examples
  turnstream chat What is turnstream?
  echo What is turnstream? | turnstream chat --model scripted/thinking --json

Exit codes
  0 the answer is complete · 1 it ended as an error, was stopped, or there is no gateway · 2 bad usage
`

const OPTIONS = {
  url: { type: 'string' },
  model: { type: 'string' },
  thread: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: OPTIONS })
  const { url, model, thread, json } = values
  const client = gatewayOf(url, terminal)
  const conversation = new Conversation(client, terminal)
  conversation.model = model
  conversation.threadId = thread
  const given = positionals.join(' ')
  try {
    if (given === '' && terminal.isInteractive && !json) {
      return await converse(conversation, { url: client.url, option: url }, terminal)
    }
    const prompt = given === '' ? await readPrompt(terminal.input) : given
    if (prompt === '') {
      throw new UsageError('there is no prompt, neither as an argument nor piped in')
    }
    if (thread !== undefined) await conversation.check()
    const outcome = json
      ? await conversation.say(prompt, jsonListener(terminal), 'snapshot')
      : await conversation.say(prompt, textListener(terminal), 'append')
    return outcome === 'complete' ? EXIT.done : EXIT.failed
  } catch (error) {
    return reportRemoteError(error, terminal, json)
  }
}

const COMMANDS = `/model <model>   use another model from the next prompt on
/new             start a new thread
/help            this list
/quit            leave, like Ctrl-D
`

/** A line that is a command rather than a prompt: a slash and one word, then maybe an argument. */
const COMMAND = /^\/([a-z]+)(?:\s+(\S+))?$/

async function converse(
  conversation: Conversation,
  gateway: { readonly url: string; readonly option: string | undefined },
  terminal: Terminal,
): Promise<ExitCode> {
  const { ask, style, write } = terminal
  await conversation.check()
  const intro = `with ${gateway.url}: Ctrl-C stops an answer, Ctrl-D leaves, /help lists commands`
  await write(`${style('bold', 'turnstream chat')} ${intro}\n\n`)
  let exit: ExitCode = EXIT.done
  for (;;) {
    const prompt = (await ask('> '))?.trim()
    if (prompt === undefined || prompt === '/quit') break
    if (prompt === '') continue
    const [, command, argument] = COMMAND.exec(prompt) ?? []
    if (command === undefined) exit = await answer(conversation, prompt, terminal)
    else await write(runCommand(conversation, command, argument))
    await write('\n')
  }
  const { threadId } = conversation
  if (threadId !== undefined) {
    const url = gateway.option === undefined ? '' : ` --url ${gateway.option}`
    const resume = printable(`turnstream chat${url} --thread ${threadId}`)
    await write(`\nTo continue: ${resume}\n`)
  }
  return exit
}

/** An answer that failed is on the screen. One that was lost makes the command fail, unless a later one succeeds. */
async function answer(conversation: Conversation, prompt: string, terminal: Terminal) {
  try {
    await conversation.say(prompt, textListener(terminal), 'append')
    return EXIT.done
  } catch (error) {
    return reportRemoteError(error, terminal, false)
  }
}

function runCommand(conversation: Conversation, command: string, argument: string | undefined) {
  switch (command) {
    case 'help':
      return COMMANDS
    case 'new':
      conversation.threadId = undefined
      return 'The next prompt starts a new thread.\n'
    case 'model':
      if (argument === undefined) return `${conversation.model ?? 'the default model'}\n`
      conversation.model = argument
      return `The next prompt goes to ${printable(argument)}.\n`
    default:
      return `Unknown command /${command}. /help lists the commands.\n`
  }
}

function textListener(terminal: Terminal): Listener {
  const view = new ChatView(terminal)
  const { write, isInteractive } = terminal
  return {
    async show(output) {
      const text = view.show(output)
      if (text !== '') await write(text)
    },
    wait(ms, failures) {
      // Most breaks are over before anybody notices them.
      if (!isInteractive || failures < 2) return
      void write(view.note(`connection lost, trying again in ${(ms / 1000).toFixed(1)} s`))
    },
  }
}

function jsonListener({ write }: Terminal): Listener {
  return { show: (output) => write(jsonLine(output)) }
}

// More than any gateway takes; a pipe that never ends must not fill the memory.
const MAX_PROMPT_BYTES = 16 * 1024 * 1024

async function readPrompt(input: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of input) {
    bytes += chunk.length
    if (bytes > MAX_PROMPT_BYTES) throw new UsageError('the prompt is longer than 16 MB')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8').trim()
}

export const chat: Command = { help: HELP, options: OPTIONS, run }
