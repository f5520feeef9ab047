import { parseArgs } from 'node:util'
import { type Command, EXIT, type ExitCode, UsageError } from '../command.ts'
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

Ctrl-C stops an answer; at the prompt, Ctrl-C or Ctrl-D leaves. When the connection breaks it is made
again, and the answer goes on where it was.

Options
  --url <url>        the gateway (TURNSTREAM_URL, or http://127.0.0.1:4010)
  --model <model>    <provider>/<model>, such as scripted/thinking (the default of the gateway)
  --thread <id>      goes on with a thread
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
    headers: keyHeaders(terminal),
    model: values.model,
    threadId: values.thread,
    json: values.json,
    prompt: positionals.join(' '),
  }
}

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const { json, prompt, ...rest } = parse(args, terminal)
  const encoding = json ? 'snapshot' : 'append'
  const conversation = new Conversation({ ...rest, encoding }, terminal)
  try {
    if (prompt === '' && terminal.isInteractive && !json) {
      return await converse(conversation, rest.url, terminal)
    }
    const question = prompt === '' ? await textOf(terminal.input) : prompt
    if (question === '')
      throw new UsageError('there is no prompt, neither as an argument nor piped in')
    const outcome = await conversation.say(question, json ? asJson(terminal) : asText(terminal))
    return outcome === 'complete' ? EXIT.done : EXIT.failed
  } catch (error) {
    await tellRemoteError(error, terminal, json)
    return EXIT.failed
  }
}

async function converse(conversation: Conversation, url: string, terminal: Terminal) {
  const { ask, style, write } = terminal
  await conversation.check()
  await write(
    `${style('bold', 'turnstream chat')} with ${url}: Ctrl-C stops an answer, Ctrl-D leaves\n\n`,
  )
  for (;;) {
    const prompt = (await ask('> '))?.trim()
    if (prompt === undefined) break
    if (prompt === '') continue
    try {
      await conversation.say(prompt, asText(terminal))
    } catch (error) {
      await tellRemoteError(error, terminal, false)
    }
    await write('\n')
  }
  const { threadId } = conversation
  if (threadId !== undefined) await write(`\nGo on with: turnstream chat --thread ${threadId}\n`)
  return EXIT.done
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
