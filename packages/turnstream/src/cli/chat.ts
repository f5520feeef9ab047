import type { Client, ClientTool, ConnectionState, ToolAnswer } from '@turnstream/client'
import { readBounded } from '@turnstream/conformance/internal/endpoint/http'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import { clip, printable } from '@turnstream/core/internal/protocol/printable'
import type {
  Approval,
  StreamOutput,
  ToolCall,
} from '@turnstream/core/internal/protocol/stream-output'
import { approvalQuestions, OpenCalls, readTools } from './chat-tools.ts'
import {
  CommandError,
  defineCommand,
  EXIT,
  type ExitCode,
  isFailure,
  reportFailure,
  UsageError,
} from './command.ts'
import { ABOUT_KEYS, type Gateway, openGateway, path, URL_OPTION } from './gateway.ts'
import type { Terminal } from './terminal.ts'
import { describeCall, messageOf } from './text.ts'

export const chat = defineCommand({
  name: 'chat',
  summary: 'chat with a model through a running gateway',
  usage: [
    'turnstream chat [--model <model>] [--thread <id>]          interactive',
    'turnstream chat [options] <prompt>                         print one answer and exit',
    'echo <prompt> | turnstream chat [options]                  the same',
  ],
  about: `Ctrl-C cancels an answer. At the prompt, Ctrl-C or Ctrl-D exits and /help lists the commands. chat
reconnects after a lost connection and continues the answer.

${ABOUT_KEYS}`,
  options: {
    url: URL_OPTION,
    model: {
      value: 'model',
      about: '<provider>/<model>, such as scripted/thinking (default: chosen by the gateway)',
    },
    thread: { value: 'id', about: 'continue a thread' },
    tools: { value: 'file', about: 'JSON list of tools; give their results with /answer' },
    json: { about: 'print snapshots as JSON lines' },
  },
  words: { takes: 'a prompt', min: 0, max: Infinity },
  examples: [
    'turnstream chat What is turnstream?',
    'echo What is turnstream? | turnstream chat --model scripted/thinking --json',
  ],
  exitCodes: '0 answer complete · 1 answer failed or was cancelled, or no gateway · 2 usage error',
  async run({ values, words }, terminal) {
    const { url, model, thread, json, tools: file } = values
    const tools = file === undefined ? undefined : readTools(file, terminal.cwd)
    const gateway = openGateway(url, terminal)
    const calls = new OpenCalls()
    const conversation: Conversation = { gateway, terminal, model, threadId: thread, tools, calls }
    const given = words.join(' ')
    if (given === '' && terminal.isInteractive && !json) return await converse(conversation, url)
    const prompt = given === '' ? await readPrompt(terminal.input) : given
    if (prompt === '') throw new UsageError('no prompt: pass it as an argument or pipe it in')
    if (thread !== undefined) await check(conversation)
    const listener: Listener = json
      ? { show: (output) => terminal.write(jsonLine(output)) }
      : textListener(terminal, calls)
    const outcome = await say(conversation, prompt, listener)
    return outcome === 'complete' ? EXIT.done : EXIT.failed
  },
})

const COMMANDS = `/model <model>   use another model for the following prompts
/answer <text>   give the result of a client tool
/new             start a new thread
/help            this list
/quit            exit, like Ctrl-D
`

/** A slash command: a slash and one word, with an optional argument. */
const COMMAND = /^\/(?!answer\b)([a-z]+)(?:\s+(\S+))?$/

const ANSWER = /^\/answer(?=\s|$)\s*(.*)$/s

async function converse(conversation: Conversation, urlOption?: string): Promise<ExitCode> {
  const { ask, style, write } = conversation.terminal
  await check(conversation)
  const intro = `with ${conversation.gateway.url}: Ctrl-C cancels an answer, Ctrl-D exits, /help lists commands`
  await write(`${style('bold', 'turnstream chat')} ${intro}\n\n`)
  let exit: ExitCode = EXIT.done
  for (;;) {
    const prompt = (await ask('> '))?.trim()
    if (prompt === undefined || prompt === '/quit') break
    if (prompt === '') continue
    const [, result] = ANSWER.exec(prompt) ?? []
    const [, command, argument] = COMMAND.exec(prompt) ?? []
    // The turn continues when every call has its result.
    const question = result === undefined ? prompt : conversation.calls.answer(result)
    if (command !== undefined) await write(runCommand(conversation, command, argument))
    else if (result !== undefined && typeof question === 'string') await write(question)
    else exit = await answer(conversation, question)
    await write('\n')
  }
  const { threadId } = conversation
  if (threadId !== undefined) {
    const url = urlOption === undefined ? '' : ` --url ${urlOption}`
    const resume = printable(`turnstream chat${url} --thread ${threadId}`)
    await write(`\nTo continue: ${resume}\n`)
  }
  return exit
}

/** A failed answer has been printed. A lost one makes the command fail, unless a later one succeeds. */
async function answer(conversation: Conversation, question: Question): Promise<ExitCode> {
  const { terminal } = conversation
  try {
    await say(conversation, question, textListener(terminal, conversation.calls))
    return EXIT.done
  } catch (error) {
    if (!isFailure(error)) throw error
    return reportFailure(error, terminal, false)
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

function textListener(terminal: Terminal, calls: OpenCalls): Listener {
  const view = new ChatView(terminal)
  const { write, isInteractive, clock } = terminal
  let dueAt: number | undefined
  return {
    async show(output) {
      const hint = calls.note(output)
      const text = view.show(output) + (isInteractive ? hint : '')
      if (text !== '') await write(text)
    },
    async wait({ retryAt }) {
      if (retryAt === dueAt) return
      dueAt = retryAt
      if (!isInteractive || retryAt === undefined) return
      const seconds = Math.max(0, retryAt - clock.now()) / 1000
      await write(view.note(`connection lost, retrying in ${seconds.toFixed(1)} s`))
    },
  }
}

// More than any gateway accepts. An endless pipe must not fill the memory.
const MAX_PROMPT_BYTES = 16 * 1024 * 1024

async function readPrompt(input: AsyncIterable<Uint8Array>): Promise<string> {
  const text = await readBounded(input, MAX_PROMPT_BYTES + 1)
  if (Buffer.byteLength(text) > MAX_PROMPT_BYTES) {
    throw new UsageError('the prompt is longer than 16 MB')
  }
  return text.trim()
}

interface Listener {
  readonly show: (output: StreamOutput) => Promise<void>
  /** Called when the connection has changed. Short disconnects are not reported. */
  readonly wait?: (connection: ConnectionState) => Promise<void>
}

interface Conversation {
  readonly gateway: Gateway
  readonly terminal: Terminal
  /** Undefined before the first prompt, and to start a new thread. */
  threadId: string | undefined
  /** The model of the next prompt; undefined is the gateway's default. */
  model: string | undefined
  readonly tools: readonly ClientTool[] | undefined
  readonly calls: OpenCalls
}

type Question = string | readonly ToolAnswer[]

async function check({ gateway, threadId }: Conversation): Promise<void> {
  const route = threadId === undefined ? ROUTES.health : `${path(ROUTES.thread, threadId)}?limit=1`
  try {
    await (await gateway.get(route)).body?.cancel()
  } catch (error) {
    if (!isFailure(error) || error.code !== 'THREAD_UNKNOWN') throw error
    const message = `Thread ${threadId} does not exist. Leave out --thread to start a new one.`
    throw new CommandError(error.code, message)
  }
}

/** Submits a prompt or tool results and passes on the outputs until the turn ends. Ctrl-C cancels the turn. */
async function say(conversation: Conversation, question: Question, { show, wait }: Listener) {
  const { gateway, terminal, model, tools } = conversation
  const { client } = gateway
  const { threadId = crypto.randomUUID() } = conversation
  const turnId = crypto.randomUUID()
  const settings = { turnId, ...(tools && { tools }), ...(model !== undefined && { model }) }
  const turn =
    typeof question === 'string'
      ? client.submit({ ...settings, threadId, prompt: question })
      : client.answer(threadId, question, settings)
  // The user knows what was submitted.
  const shown = new Set<StreamOutput>(turn.getSnapshot().turn?.items)
  await turn.accepted()
  conversation.threadId = threadId
  const stopListening = cancelOnSignal(client, turnId, terminal)
  const askApproval = approvalQuestions(client, turnId, terminal)
  try {
    for await (const { turn: view, connection } of turn) {
      await wait?.(connection)
      const outputs = view?.started ? [view.started, ...view.items, view.end ?? []].flat() : []
      for (const output of outputs.filter((each) => !shown.has(each))) {
        shown.add(output)
        gateway.progressed()
        await show(output)
        await askApproval(output)
      }
    }
  } finally {
    stopListening()
  }
  return turn.getSnapshot().turn?.status
}

/** The first Ctrl-C cancels the turn, the second exits the process. */
function cancelOnSignal(client: Client, turnId: string, terminal: Terminal): () => void {
  let isCancelling = false
  return terminal.onSignal(() => {
    if (isCancelling) return terminal.exit(EXIT.failed)
    isCancelling = true
    client.cancel(turnId, 'cancelled by the user').catch((error: unknown) => {
      isCancelling = false
      const reason = printable(messageOf(error))
      terminal.writeError(`\nturnstream: could not cancel the turn: ${reason}\n`)
    })
  })
}

type Text = Extract<StreamOutput, { type: 'message' | 'thinking' }>

/** Turns outputs into append-only text: messages as they grow, and everything else as lines. */
export class ChatView {
  readonly #terminal: Pick<Terminal, 'style' | 'columns'>
  readonly #printed = new Map<string, string>()
  /** Stages of calls, and errors. */
  readonly #reported = new Set<string>()
  /** The item that the cursor's line belongs to; undefined at the start of a line. */
  #current: string | undefined
  #isEmpty = true

  constructor(terminal: Pick<Terminal, 'style' | 'columns'>) {
    this.#terminal = terminal
  }

  /** The text to print for an output; empty when nothing is new. */
  show(output: StreamOutput): string {
    switch (output.type) {
      case 'turn_started':
        return ''
      case 'message':
        // The user typed it.
        return output.origin === 'user' ? '' : this.#text(output)
      case 'thinking':
        return this.#text(output)
      case 'tool_call':
        return this.#toolCall(output)
      case 'turn_complete':
        return output.status === 'aborted'
          ? `${this.#newLine()}${this.#terminal.style('yellow', '(stopped)')}\n`
          : this.#newLine()
      case 'turn_error':
        return this.#fault(output.error.code, output.error.message)
    }
  }

  note(text: string): string {
    return `${this.#newLine()}${this.#dim(`(${text})`)}\n`
  }

  #text(output: Text): string {
    const added = this.#grown(output)
    const { status, errorCode = 'error', errorMessage = '' } = output
    // The end of the turn reports the cancellation.
    if (status !== 'error' || errorCode === 'ITEM_CANCELLED') return added
    return added + this.#fault(errorCode, errorMessage)
  }

  #grown({ itemId, type, content }: Text): string {
    const before = this.#printed.get(itemId) ?? ''
    if (content === before) return ''
    this.#printed.set(itemId, content)
    const isGrowth = content.startsWith(before)
    const news = printable(isGrowth ? content.slice(before.length) : content)
    const isElsewhere = this.#current !== itemId
    let lead = isElsewhere || !isGrowth ? this.#newLine() : ''
    if (!isGrowth) lead += '(corrected) '
    // A blank line separates texts.
    else if (isElsewhere && before === '' && !this.#isEmpty) lead += '\n'
    this.#current = itemId
    this.#isEmpty = false
    return lead + (type === 'thinking' ? this.#dim(news) : news)
  }

  #toolCall(output: ToolCall): string {
    const { itemId, status, approval, errorCode, errorMessage = '' } = output
    // A call is printed when it starts, when its approval was answered and when it has output.
    const isAnswered = approval !== undefined && approval.status !== 'requested'
    const answer =
      isAnswered && this.#isNew(`${itemId} answer`) ? this.note(describe(approval)) : ''
    if (status === 'update' || !this.#isNew(`${itemId} ${status}`)) return answer
    const { style, columns } = this.#terminal
    const line = style('cyan', clip(`⚙ ${describeCall(output)}`, columns))
    const shown = `${answer}${this.#newLine()}${line}\n`
    this.#isEmpty = false
    return status === 'error' ? shown + this.#fault(errorCode ?? 'error', errorMessage) : shown
  }

  #isNew(stage: string): boolean {
    const isNew = !this.#reported.has(stage)
    this.#reported.add(stage)
    return isNew
  }

  /** The turn repeats the error of its last item; print it once. */
  #fault(code: string, message: string): string {
    const text = printable(`${code}: ${message}`)
    if (!this.#isNew(text)) return this.#newLine()
    return `${this.#newLine()}${this.#terminal.style('red', `✗ ${text}`)}\n`
  }

  #newLine(): string {
    if (this.#current === undefined) return ''
    this.#current = undefined
    return '\n'
  }

  /** Styles line by line: some terminals colour the rest of a line when a style spans a line break. */
  #dim(text: string): string {
    return text
      .split('\n')
      .map((line) => (line === '' ? '' : this.#terminal.style('dim', line)))
      .join('\n')
  }
}

function describe({ status, reason, answeredBy }: Approval): string {
  const by = answeredBy === undefined ? '' : ` by ${answeredBy}`
  return printable(`${status}${by}${reason === undefined ? '' : `: ${reason}`}`)
}
