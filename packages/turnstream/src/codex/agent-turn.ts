import { isRecord } from '@turnstream/core/internal/protocol/json'
import type { StreamEventPayload } from '@turnstream/core/internal/protocol/stream-event'
import type { CodexAgent } from './agent.ts'
import type { Incoming, Params } from './connection.ts'
import { OutputLimits } from './output-limits.ts'
import { UnseenCommands } from './unseen-commands.ts'

const APPROVAL_REQUESTS = new Set([
  'item/commandExecution/requestApproval',
  'item/fileChange/requestApproval',
])

/** Items that are not work of the agent. */
const TEXTS = new Set(['agentMessage', 'contextCompaction', 'plan', 'reasoning', 'userMessage'])

type IsApproved = (approvalId: string) => Promise<boolean>

/** What an agent adds to a turn: commands that print a lot, run for long in silence, and need approval. */
export class AgentTurn {
  readonly #isAsked: boolean
  readonly #isApproved: IsApproved
  readonly #unseen: UnseenCommands
  readonly #limits: OutputLimits
  readonly #running = new Set<unknown>()

  /** Without `isApproved` everything is declined. */
  constructor(agent: CodexAgent, isApproved: IsApproved | undefined) {
    const { approvals, directory, maxOutputChars } = agent
    this.#isAsked = approvals === 'ask' && isApproved !== undefined
    this.#isApproved = isApproved ?? (() => Promise.resolve(false))
    this.#unseen = new UnseenCommands(directory)
    this.#limits = new OutputLimits(maxOutputChars)
  }

  /** Whether a command runs or waits for approval: codex has no reason to say anything. */
  get isBusy(): boolean {
    return this.#running.size > 0
  }

  /** Returns the messages to translate in place of this one. */
  admit(message: Incoming): readonly Incoming[] {
    return this.#unseen.apply(message).flatMap((each) => {
      this.#track(each)
      return this.#limits.apply(each) ?? []
    })
  }

  #track({ method, params: { item } }: Incoming): void {
    if (!isRecord(item) || TEXTS.has(String(item['type']))) return
    if (method === 'item/started') this.#running.add(item['id'])
    else if (method === 'item/completed') this.#running.delete(item['id'])
  }

  /** Whether the message is a request that `decide` answers. */
  takes({ id, method }: Incoming): boolean {
    return id !== undefined && APPROVAL_REQUESTS.has(method)
  }

  /** Calls `respond` with the decision. Returns the approval request for clients, if there is one. */
  decide(
    { id = '', params: { itemId } }: Incoming,
    respond: (id: string | number, result: Params) => void,
  ): readonly StreamEventPayload[] {
    if (!this.#isAsked || typeof itemId !== 'string') {
      respond(id, { decision: 'decline' })
      return []
    }
    const approval_id = `codex-${id}`
    void this.#isApproved(approval_id).then((isApproved) => {
      respond(id, { decision: isApproved ? 'accept' : 'decline' })
    })
    const item_id = `approval ${id}`
    const item = { id: item_id, approval_id, call_id: itemId }
    return [{ type: 'item_done', item_id, final_item: { type: 'approval_request', ...item } }]
  }
}
