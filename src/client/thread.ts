import { CLIENT_ROUTES } from '../protocol/names.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'
import type { ConnectionState } from './connection.ts'
import { ClientError } from './errors.ts'
import { Feed } from './feed.ts'
import { Live } from './live.ts'
import type { RequestInit, Requests } from './requests.ts'
import type { Submission } from './turn.ts'
import { apply, EMPTY_VIEW, prepend, type TurnView, type View } from './view.ts'

export interface ThreadState {
  /** Oldest first, from the oldest that was loaded, with those submitted here that the gateway has not sent yet. */
  readonly turns: readonly TurnView[]
  /** Whether `loadOlder` has more. */
  readonly hasOlder: boolean
  readonly connection: ConnectionState
}

/** A page of `GET /xapi/threads/:threadId`. */
interface ThreadPage {
  readonly turns: readonly {
    readonly turnId: string
    readonly offset: string
    readonly outputs: readonly StreamOutput[]
  }[]
  readonly nextCursor?: string
}

/**
 * A thread of the gateway: its newest turns, then everything new, over one connection. It ends when it is deleted.
 *
 * @example
 * const { subscribe, getSnapshot } = client.thread(threadId)
 * subscribe(() => render(getSnapshot().turns))
 */
export class Thread extends Live<ThreadState> {
  readonly threadId: string
  readonly #path: string
  readonly #submissions = new Map<string, Submission>()
  #olderCursor: string | undefined

  constructor(requests: Requests, threadId: string, submissions: readonly Submission[]) {
    const path = CLIENT_ROUTES.threadOutputs.replace(':threadId', encodeURIComponent(threadId))
    super(requests, `${path}/stream`, new Feed())
    this.threadId = threadId
    this.#path = path
    for (const submission of submissions) this.add(submission)
  }

  /** Loads the turns before those that are shown. */
  async loadOlder(): Promise<void> {
    const { generation } = this.feed
    const cursor = this.#olderCursor
    if (cursor === undefined) return
    const page = await this.#load(`&cursor=${encodeURIComponent(cursor)}`)
    // Meanwhile the thread was loaded again, or this page by another call.
    if (generation !== this.feed.generation || cursor !== this.#olderCursor) return
    this.#olderCursor = page.nextCursor
    this.feed.view = prepend(this.feed.view, viewOf(page))
    this.republish()
  }

  /** Shows a turn that was submitted here. */
  add(submission: Submission): void {
    const { optimistic, accepted } = submission
    this.#submissions.set(optimistic.turnId, submission)
    this.republish()
    accepted.then(
      // The thread did not exist before.
      () => this.reconnect(),
      (error: unknown) => this.#refuse(submission, error),
    )
  }

  #refuse(submission: Submission, error: unknown): void {
    const { turnId, threadId } = submission.optimistic
    const { code, message } = error instanceof ClientError ? error : new ClientError(String(error))
    const [optimistic = submission.optimistic] = apply(
      { turns: [submission.optimistic] },
      { type: 'turn_error', turnId, threadId, error: { code, message } },
    ).turns
    this.#submissions.set(turnId, { ...submission, optimistic })
    this.republish()
  }

  protected override toState(view: View, connection: ConnectionState): ThreadState {
    for (const { turnId } of view.turns) this.#submissions.delete(turnId)
    const submitted = Array.from(this.#submissions.values(), ({ optimistic }) => optimistic)
    const turns = submitted.length === 0 ? view.turns : [...view.turns, ...submitted]
    return { turns, hasOlder: this.#olderCursor !== undefined, connection }
  }

  protected override async prepare(signal: AbortSignal, heard: () => void): Promise<void> {
    if (!this.feed.isAtStart) return
    // Until then the thread may not exist.
    await Promise.allSettled(Array.from(this.#submissions.values(), ({ accepted }) => accepted))
    const page = await this.#load('', heard, { signal })
    signal.throwIfAborted()
    const [newest] = page.turns
    this.#olderCursor = page.nextCursor
    this.feed.loaded(viewOf(page), newest && `${newest.turnId}/${newest.offset}`)
    this.changed()
  }

  protected override isOver(): boolean {
    return false
  }

  protected override failure({ status, cause }: ConnectionState): ClientError | undefined {
    return status === 'failed' ? cause : undefined
  }

  /** A page may be large and the line slow: `heard` is called while it arrives. */
  async #load(query: string, heard = () => {}, init: RequestInit = {}): Promise<ThreadPage> {
    const { body } = await this.requests.send(`${this.#path}?first=newest${query}`, init)
    const chunks = body?.pipeThrough(
      new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
        transform(chunk, controller) {
          heard()
          controller.enqueue(chunk)
        },
      }),
    )
    return await new Response(chunks ?? null).json()
  }
}

function viewOf({ turns }: ThreadPage): View {
  let view = EMPTY_VIEW
  for (const { turnId, outputs } of turns.toReversed()) {
    // A call may be listed as completed by a later turn.
    for (const output of outputs) view = apply(view, { ...output, turnId })
  }
  return view
}
