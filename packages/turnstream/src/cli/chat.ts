import { readBounded } from '@turnstream/conformance/internal/endpoint/http'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import { clip, printable } from '@turnstream/core/internal/protocol/printable'
import type {
  Approval,
  MessageSnapshot,
  StreamOutput,
  Thinking,
  ToolCall,
} from '@turnstream/core/internal/protocol/stream-output'
import { ApprovalQuestions, type CallResult, OpenCalls, readTools } from './chat-tools.ts'
import {
  CommandError,
  defineCommand,
  EXIT,
  type ExitCode,
  reportFailure,
  UsageError,
} from './command.ts'
import {
  ABOUT_KEYS,
  createGatewayClient,
  type GatewayClient,
  outcomeOf,
  type TurnOutcome,
  turnOutputs,
  URL_OPTION,
} from './gateway-client.ts'
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
    const client = createGatewayClient(url, terminal)
    const calls = new OpenCalls()
    const conversation: Conversation = { client, terminal, model, threadId: thread, tools, calls }
    const given = words.join(' ')
    if (given === '' && terminal.isInteractive && !json) return await converse(conversation, url)
    const prompt = given === '' ? await readPrompt(terminal.input) : given
    if (prompt === '') {
      throw new UsageError('no prompt: pass it as an argument or pipe it in')
    }
    if (thread !== undefined) await check(conversation)
    const listener: Listener = json
      ? { encoding: 'snapshot', show: (output) => terminal.write(jsonLine(output)) }
      : textListener(terminal)
    const outcome = await say(conversation, { prompt }, listener)
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
const COMMAND = /^\/([a-z]+)(?:\s+(\S+))?$/

const ANSWER = /^\/answer(?=\s|$)\s*(.*)$/s

async function converse(conversation: Conversation, urlOption?: string): Promise<ExitCode> {
  const { ask, style, write } = conversation.terminal
  await check(conversation)
  const intro = `with ${conversation.client.url}: Ctrl-C cancels an answer, Ctrl-D exits, /help lists commands`
  await write(`${style('bold', 'turnstream chat')} ${intro}\n\n`)
  let exit: ExitCode = EXIT.done
  for (;;) {
    const prompt = (await ask('> '))?.trim()
    if (prompt === undefined || prompt === '/quit') break
    if (prompt === '') continue
    const [, result] = ANSWER.exec(prompt) ?? []
    const [, command, argument] = COMMAND.exec(prompt) ?? []
    if (result !== undefined) exit = (await answerCall(conversation, result)) ?? exit
    else if (command === undefined) exit = await answer(conversation, { prompt })
    else await write(runCommand(conversation, command, argument))
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
    await say(conversation, question, textListener(terminal))
    return EXIT.done
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    return reportFailure(error, terminal, false)
  }
}

/** Continues the turn when every call has its result. */
async function answerCall(
  conversation: Conversation,
  result: string,
): Promise<ExitCode | undefined> {
  const input = conversation.calls.answer(result)
  if (typeof input !== 'string') return answer(conversation, { input })
  await conversation.terminal.write(input)
  return undefined
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
    encoding: 'append',
    async show(output) {
      const text = view.show(output)
      if (text !== '') await write(text)
    },
    wait(ms, failures) {
      // Most disconnects are too short to notice.
      if (!isInteractive || failures < 2) return
      void write(view.note(`connection lost, retrying in ${(ms / 1000).toFixed(1)} s`))
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
  /** Whether to print complete texts each time, or only what is new. */
  readonly encoding: 'snapshot' | 'append'
  readonly show: (output: StreamOutput) => Promise<void>
  /** Called when the connection broke, with the number of the attempt and the delay until the next one. */
  readonly wait?: (ms: number, failures: number) => void
}

interface Conversation {
  readonly client: GatewayClient
  readonly terminal: Terminal
  /** Undefined before the first prompt, and to start a new thread. */
  threadId: string | undefined
  /** The model of the next prompt; undefined is the gateway's default. */
  model: string | undefined
  /** Definitions of client tools. */
  readonly tools: readonly unknown[] | undefined
  readonly calls: OpenCalls
}

type Question = { readonly prompt: string } | { readonly input: readonly CallResult[] }

/** Rejects when the gateway is unreachable or does not have the thread. */
async function check({ client, threadId }: Conversation): Promise<void> {
  await client.check(threadId).catch((error: unknown) => {
    const isUnknown = error instanceof CommandError && error.code === 'THREAD_UNKNOWN'
    if (!isUnknown) throw error
    const message = `Thread ${threadId} does not exist. Leave out --thread to start a new one.`
    throw new CommandError(error.code, message)
  })
}

/** Submits a prompt or tool results and passes on the outputs until the turn ends. Ctrl-C cancels the turn. */
async function say(
  conversation: Conversation,
  question: Question,
  { encoding, show, wait }: Listener,
): Promise<TurnOutcome> {
  const { client, terminal, model, threadId, tools, calls } = conversation
  const submitted = await client.submit({
    turnId: crypto.randomUUID(),
    ...question,
    ...(tools !== undefined && { tools }),
    ...(model !== undefined && { model }),
    ...(threadId !== undefined && { threadId }),
  })
  const { runId, turnId } = submitted
  conversation.threadId = submitted.threadId
  const stopListening = cancelOnSignal(conversation, runId)
  const approvals = new ApprovalQuestions({ client, terminal, runId })
  try {
    const route = `${ROUTES.turnOutputStream}?encoding=${encoding}`
    const feed = client.stream(route, { turnId }, { ...(wait && { onBreak: wait }) })
    for await (const { output } of turnOutputs(feed)) {
      await show(output)
      await approvals.ask(output)
      const hint = calls.note(output)
      if (terminal.isInteractive && encoding === 'append' && hint !== '') await terminal.write(hint)
      const outcome = outcomeOf(output)
      if (outcome !== undefined) return outcome
    }
  } finally {
    stopListening()
  }
  throw new CommandError('TURN_LOST', `the stream of turn ${turnId} ended before the turn did`)
}

/** The first Ctrl-C cancels the turn, the second exits the process. */
function cancelOnSignal({ client, terminal }: Conversation, runId: string): () => void {
  let isCancelling = false
  return terminal.onSignal(() => {
    if (isCancelling) return terminal.exit(EXIT.failed)
    isCancelling = true
    client.cancel(runId, 'cancelled by the user').catch((error: unknown) => {
      isCancelling = false
      const reason = printable(messageOf(error))
      terminal.writeError(`\nturnstream: could not cancel the turn: ${reason}\n`)
    })
  })
}

type Text = MessageSnapshot | Thinking

/**
 * Turns outputs into what a terminal prints: text as it grows, and everything else as lines. Output is
 * append-only, and nothing is printed twice.
 */
export class ChatView {
  readonly #style: Terminal['style']
  readonly #columns: number
  readonly #printed = new Map<string, string>()
  readonly #settled = new Set<string>()
  readonly #faults = new Set<string>()
  /** The item that the cursor's line belongs to; undefined at the start of a line. */
  #current: string | undefined
  #isEmpty = true

  constructor({ style, columns }: Pick<Terminal, 'style' | 'columns'>) {
    this.#style = style
    this.#columns = columns
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
          ? `${this.#newLine()}${this.#style('yellow', '(stopped)')}\n`
          : this.#newLine()
      case 'turn_error':
        return this.#fault(output.error.code, output.error.message)
    }
  }

  /** A line that is not part of the answer. */
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
    const stage = `${itemId} ${status} ${approval?.status ?? ''}`
    if (this.#settled.has(stage)) return ''
    this.#settled.add(stage)
    if (status === 'update') {
      const isAnswered = approval !== undefined && approval.status !== 'requested'
      return isAnswered ? this.note(describe(approval)) : ''
    }
    const line = this.#style('cyan', clip(`⚙ ${describeCall(output)}`, this.#columns))
    const shown = `${this.#newLine()}${line}\n`
    this.#isEmpty = false
    return status === 'error' ? shown + this.#fault(errorCode ?? 'error', errorMessage) : shown
  }

  /** The turn repeats the error of its last item; print it once. */
  #fault(code: string, message: string): string {
    const text = printable(`${code}: ${message}`)
    if (this.#faults.has(text)) return this.#newLine()
    this.#faults.add(text)
    return `${this.#newLine()}${this.#style('red', `✗ ${text}`)}\n`
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
      .map((line) => (line === '' ? '' : this.#style('dim', line)))
      .join('\n')
  }
}

function describe({ status, reason, answeredBy }: Approval): string {
  const by = answeredBy === undefined ? '' : ` by ${answeredBy}`
  return printable(`${status}${by}${reason === undefined ? '' : `: ${reason}`}`)
}
