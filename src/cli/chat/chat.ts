import { parseArgs } from 'node:util'
import { type Command, EXIT, type ExitCode, UsageError } from '../command.ts'
import { printable } from '../printable.ts'
import { tellRemoteError } from '../remote/errors.ts'
import { keyHeaders } from '../remote/key.ts'
import { gatewayUrl } from '../remote/target.ts'
import type { Terminal } from '../terminal.ts'
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

function parse(args: string[], terminal: Terminal) {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: OPTIONS })
  return {
    url: gatewayUrl(values.url, terminal),
    urlOption: values.url,
    headers: keyHeaders(terminal),
    model: values.model,
    threadId: values.thread,
    json: values.json,
    prompt: positionals.join(' '),
  }
}

type Options = ReturnType<typeof parse>

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const options = parse(args, terminal)
  const { json, prompt, threadId } = options
  const encoding = json ? 'snapshot' : 'append'
  const conversation = new Conversation({ ...options, encoding }, terminal)
  try {
    if (prompt === '' && terminal.isInteractive && !json) {
      return await converse(conversation, options, terminal)
    }
    const question = prompt === '' ? await textOf(terminal.input) : prompt
    if (question === '')
      throw new UsageError('there is no prompt, neither as an argument nor piped in')
    if (threadId !== undefined) await conversation.check()
    const outcome = await conversation.say(question, json ? asJson(terminal) : asText(terminal))
    return outcome === 'complete' ? EXIT.done : EXIT.failed
  } catch (error) {
    await tellRemoteError(error, terminal, json)
    return EXIT.failed
  }
}

const COMMANDS = `/model <model>   use another model from the next prompt on
/new             start a new thread
/help            this list
/quit            leave, like Ctrl-D
`

/** A line that is a command rather than a prompt: a slash and one word, then maybe an argument. */
const COMMAND = /^\/([a-z]+)(?:\s+(\S+))?$/

async function converse(conversation: Conversation, options: Options, terminal: Terminal) {
  const { ask, style, write } = terminal
  await conversation.check()
  const intro = `with ${options.url}: Ctrl-C stops an answer, Ctrl-D leaves, /help lists commands`
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
  if (threadId !== undefined) await write(`\nTo continue: ${resumeCommand(threadId, options)}\n`)
  return exit
}

/** An answer that failed is on the screen. One that was lost makes the command fail, unless a later one succeeds. */
async function answer(conversation: Conversation, prompt: string, terminal: Terminal) {
  try {
    await conversation.say(prompt, asText(terminal))
    return EXIT.done
  } catch (error) {
    await tellRemoteError(error, terminal, false)
    return EXIT.failed
  }
}

function runCommand(conversation: Conversation, command: string, argument: string | undefined) {
  switch (command) {
    case 'help':
      return COMMANDS
    case 'new':
      conversation.leaveThread()
      return 'The next prompt starts a new thread.\n'
    case 'model':
      if (argument === undefined) return `${conversation.model ?? 'the default model'}\n`
      conversation.setModel(argument)
      return `The next prompt goes to ${printable(argument)}.\n`
    default:
      return `Unknown command /${command}. /help lists the commands.\n`
  }
}

function resumeCommand(threadId: string, { urlOption }: Options): string {
  const url = urlOption === undefined ? '' : ` --url ${urlOption}`
  return printable(`turnstream chat${url} --thread ${threadId}`)
}

function asText(terminal: Terminal): Listener {
  const view = new ChatView(terminal)
  const { write, isInteractive } = terminal
  return {
    async show(output) {
      const text = view.show(output)
      if (text !== '') await write(text)
    },
    wait(ms, failures) {
      // Most breaks are mended before anybody notices them.
      if (!isInteractive || failures < 2) return
      void write(view.note(`connection lost, trying again in ${(ms / 1000).toFixed(1)} s`))
    },
  }
}

function asJson({ write }: Terminal): Listener {
  return { show: (output) => write(`${JSON.stringify(output)}\n`), wait() {} }
}

// More than any gateway takes; a pipe that never ends must not fill the memory.
const MAX_PROMPT_BYTES = 16 * 1024 * 1024

async function textOf(input: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of input) {
    bytes += chunk.length
    if (bytes > MAX_PROMPT_BYTES) throw new UsageError('the prompt is longer than 16 MB')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8').trim()
}

export const chat: Command = {
  summary: 'talk with a model through a running gateway',
  help: HELP,
  options: OPTIONS,
  run,
}
