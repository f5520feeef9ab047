import { ROUTES } from '../../protocol/names.ts'
import type { StreamOutput } from '../../protocol/stream-output.ts'
import { EXIT } from '../command.ts'
import { printable } from '../printable.ts'
import { RemoteError } from '../remote/errors.ts'
import { EventFeed } from '../remote/event-feed.ts'
import { GatewayClient, type SubmittedTurn } from '../remote/gateway-client.ts'
import { outcomeOf, type TurnOutcome, turnOutputs } from '../remote/turn-outputs.ts'
import type { Terminal } from '../terminal.ts'

export interface ConversationOptions {
  readonly url: string
  readonly model: string | undefined
  readonly threadId: string | undefined
  /** Say who asks. */
  readonly headers: Readonly<Record<string, string>>
  /** Whether texts travel whole each time, as programs want them, or only what is new. */
  readonly encoding: 'snapshot' | 'append'
}

/** Who sees what is said. */
export interface Listener {
  show(output: StreamOutput): Promise<void>
  /** The connection broke, for the given time in a row, and will be made again after `ms`. */
  wait(ms: number, failures: number): void
}

/** One thread with a gateway: prompts in, outputs out. */
export class Conversation {
  readonly #options: ConversationOptions
  readonly #terminal: Terminal
  readonly #client: GatewayClient
  #threadId: string | undefined
  #model: string | undefined

  constructor(options: ConversationOptions, terminal: Terminal) {
    this.#options = options
    this.#terminal = terminal
    this.#client = new GatewayClient(options.url, terminal.clock, options.headers)
    this.#threadId = options.threadId
    this.#model = options.model
  }

  get threadId(): string | undefined {
    return this.#threadId
  }

  get model(): string | undefined {
    return this.#model
  }

  /** Applies from the next prompt on. */
  setModel(model: string): void {
    this.#model = model
  }

  /** The next prompt starts a new thread. */
  leaveThread(): void {
    this.#threadId = undefined
  }

  /** Rejects when no gateway answers, or when it does not have the thread. */
  async check(): Promise<void> {
    if (this.#threadId === undefined) return this.#client.check()
    if (await this.#client.hasThread(this.#threadId)) return
    const message = `Thread ${this.#threadId} does not exist. Leave out --thread to start a new one.`
    throw new RemoteError('THREAD_UNKNOWN', message)
  }

  /** Submits a prompt and hands over what comes of it, to the end of the turn. Ctrl-C stops the turn. */
  async say(prompt: string, listener: Listener): Promise<TurnOutcome> {
    const model = this.#model
    const turn = await this.#client.submit({
      turnId: crypto.randomUUID(),
      prompt,
      ...(model !== undefined && { model }),
      ...(this.#threadId !== undefined && { threadId: this.#threadId }),
    })
    this.#threadId = turn.threadId
    const ignoreSignals = this.#cancelOnSignal(turn)
    try {
      return await this.#follow(turn, listener)
    } finally {
      ignoreSignals()
    }
  }

  async #follow({ turnId }: SubmittedTurn, listener: Listener): Promise<TurnOutcome> {
    const { clock } = this.#terminal
    const route = this.#client.address(ROUTES.turnOutputStream, { turnId })
    const reading = new AbortController()
    const feed = new EventFeed({
      url: `${route}?encoding=${this.#options.encoding}`,
      headers: this.#options.headers,
      clock,
      signal: reading.signal,
      onBreak: (ms, failures) => listener.wait(ms, failures),
    })
    for await (const { output } of turnOutputs(feed)) {
      await listener.show(output)
      const outcome = outcomeOf(output)
      if (outcome !== undefined) return outcome
    }
    throw new RemoteError('TURN_LOST', `the stream of turn ${turnId} ended before the turn did`)
  }

  /** Who presses Ctrl-C wants the answer to stop; who presses it again wants to leave. */
  #cancelOnSignal({ runId }: SubmittedTurn): () => void {
    let isCancelling = false
    return this.#terminal.onSignal(() => {
      if (isCancelling) return this.#terminal.exit(EXIT.failed)
      isCancelling = true
      this.#client.cancel(runId, 'stopped by the user').catch((error: unknown) => {
        isCancelling = false
        const reason = error instanceof Error ? error.message : String(error)
        this.#terminal.writeError(`\nturnstream: could not stop the turn: ${printable(reason)}\n`)
      })
    })
  }
}
