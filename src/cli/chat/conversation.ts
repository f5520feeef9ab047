import { ROUTES } from '../../protocol/names.ts'
import type { StreamOutput } from '../../protocol/stream-output.ts'
import { EXIT } from '../command.ts'
import { RemoteError } from '../remote/errors.ts'
import type { GatewayClient } from '../remote/gateway-client.ts'
import { outcomeOf, type TurnOutcome, turnOutputs } from '../remote/turn-outputs.ts'
import type { Terminal } from '../terminal.ts'
import { messageOf, printable } from '../text.ts'

/** Receives what is said. */
export interface Listener {
  show(output: StreamOutput): Promise<void>
  /** The connection broke, for the given time in a row, and is opened again after `ms`. */
  wait?(ms: number, failures: number): void
}

/** One thread with a gateway: prompts in, outputs out. */
export class Conversation {
  /** Undefined before the first prompt, and to start a new thread. */
  threadId: string | undefined
  /** Of the next prompt; undefined is the default of the gateway. */
  model: string | undefined
  readonly #client: GatewayClient
  readonly #terminal: Terminal

  constructor(client: GatewayClient, terminal: Terminal) {
    this.#client = client
    this.#terminal = terminal
  }

  /** Rejects when no gateway answers, or when it does not have the thread. */
  async check(): Promise<void> {
    if (this.threadId === undefined) return this.#client.check()
    if (await this.#client.hasThread(this.threadId)) return
    const message = `Thread ${this.threadId} does not exist. Leave out --thread to start a new one.`
    throw new RemoteError('THREAD_UNKNOWN', message)
  }

  /**
   * Submits a prompt and passes its outputs on, to the end of the turn. Ctrl-C stops the turn. `append` sends
   * only what is new of a text, `snapshot` all of it each time.
   */
  async say(
    prompt: string,
    listener: Listener,
    encoding: 'snapshot' | 'append',
  ): Promise<TurnOutcome> {
    const { runId, turnId, threadId } = await this.#client.submit({
      turnId: crypto.randomUUID(),
      prompt,
      ...(this.model !== undefined && { model: this.model }),
      ...(this.threadId !== undefined && { threadId: this.threadId }),
    })
    this.threadId = threadId
    const stopListening = this.#cancelOnSignal(runId)
    try {
      const route = `${ROUTES.turnOutputStream}?encoding=${encoding}`
      const onBreak = listener.wait?.bind(listener)
      const feed = this.#client.stream(route, { turnId }, { ...(onBreak && { onBreak }) })
      for await (const { output } of turnOutputs(feed)) {
        await listener.show(output)
        const outcome = outcomeOf(output)
        if (outcome !== undefined) return outcome
      }
    } finally {
      stopListening()
    }
    throw new RemoteError('TURN_LOST', `the stream of turn ${turnId} ended before the turn did`)
  }

  /** The first Ctrl-C cancels the turn, the second one ends the process. */
  #cancelOnSignal(runId: string): () => void {
    let isCancelling = false
    return this.#terminal.onSignal(() => {
      if (isCancelling) return this.#terminal.exit(EXIT.failed)
      isCancelling = true
      this.#client.cancel(runId, 'stopped by the user').catch((error: unknown) => {
        isCancelling = false
        const reason = printable(messageOf(error))
        this.#terminal.writeError(`\nturnstream: could not stop the turn: ${reason}\n`)
      })
    })
  }
}
