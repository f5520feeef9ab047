import { useEffect, useRef, useState } from 'preact/hooks'
import type { ConnectionState, ThreadState, TurnView } from '../../packages/client/src/index.ts'
import { useThread } from '../../packages/client/src/react.ts'
import { isTemporary } from './causes.ts'
import { Composer, focusComposer } from './composer.tsx'
import { Confirm } from './confirm.tsx'
import { ConnectionNotice } from './connection-notice.tsx'
import { client, onNewKey } from './gateway.ts'
import { MenuIcon } from './icons.tsx'
import { showThread } from './location.ts'
import { useModelChoice } from './model-choice.ts'
import type { Models } from './models.ts'
import { Scroller } from './scroller.tsx'
import { threadsChanged } from './threads.ts'
import { noteSubmit } from './timings.ts'
import { Trouble } from './trouble.tsx'
import { Turn } from './turn.tsx'
import { Welcome } from './welcome.tsx'

interface ChatProps {
  readonly threadId: string | undefined
  readonly models: Models
  readonly onMenu: () => void
  readonly onInspect: (turnId: string) => void
}

/** One conversation, or the start of a new one. */
export function Chat({ threadId, models, onMenu, onInspect }: ChatProps) {
  const [replacing, setReplacing] = useState<Replacing>()
  const followed = useThread(client, threadId)
  const turns = withoutReplaced(followed.turns, replacing)
  const state = threadId === undefined ? undefined : { ...followed, turns }
  const [model, setModel] = useModelChoice(models.ids, { threadId, turns })
  const running = state?.turns.findLast(({ status }) => status === 'running')
  const title = state === undefined ? 'New conversation' : firstPrompt(state.turns)

  useTitle(title)

  const submit = (prompt: string, options: { model?: string; replaces?: string } = {}) => {
    const { replaces } = options
    const turn = client.submit({
      prompt,
      ...(threadId !== undefined && { threadId }),
      ...optional('model', options.model ?? model),
      ...optional('replaces', replaces),
    })
    noteSubmit(turn.turnId)
    if (replaces !== undefined) setReplacing({ old: replaces, by: turn.turnId })
    const { threadId: id } = turn.getSnapshot().turn ?? {}
    turn.accepted().then(
      threadsChanged,
      // The turn shows why it was refused.
      () => {},
    )
    if (threadId === undefined && id !== undefined) showThread(id)
    focusComposer()
  }
  const stop = running && (() => void client.cancel(running.turnId, 'stopped by the user'))

  // Then the trouble stands in place of the conversation.
  const isUnloaded = state?.turns.length === 0 && state.connection.cause !== undefined
  const reconnect = () => client.thread(threadId ?? '').reconnect()

  useEscape(stop)
  useEffect(() => onNewKey(reconnect), [threadId])

  return (
    <main class="chat">
      <Header
        title={title ?? 'Conversation'}
        connection={isUnloaded ? undefined : state?.connection}
        onMenu={onMenu}
        onRetry={reconnect}
      />
      <Scroller key={threadId ?? ''} turns={state?.turns}>
        {state === undefined ? (
          <Welcome
            models={models}
            onPrompt={(prompt, example) => submit(prompt, { model: example })}
          />
        ) : (
          <Turns
            threadId={threadId ?? ''}
            state={state}
            onSubmit={submit}
            onInspect={onInspect}
            model={model}
          />
        )}
      </Scroller>
      <Composer
        models={models.ids}
        model={model}
        onModel={setModel}
        draftName={threadId ?? ''}
        onSubmit={(prompt) => submit(prompt)}
        onStop={stop}
      />
    </main>
  )
}

function Header(props: {
  title: string
  connection: ConnectionState | undefined
  onMenu: () => void
  onRetry: () => void
}) {
  const { title, connection, onMenu, onRetry } = props
  return (
    <header>
      <button type="button" class="quiet menu" aria-label="Conversations" onClick={onMenu}>
        <MenuIcon />
      </button>
      <h1 dir="auto">{title}</h1>
      {connection && <ConnectionNotice connection={connection} onRetry={onRetry} />}
    </header>
  )
}

/** A retry that waits for a confirmation. */
interface Retry {
  readonly prompt: string
  readonly turnId: string
  /** How many turns come after it. */
  readonly later: number
}

/** Calls a function on Escape, unless a dialog, a field that is edited or the list uses it. */
function useEscape(onEscape: (() => void) | undefined): void {
  const latest = useRef(onEscape)
  latest.current = onEscape
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || event.isComposing || event.defaultPrevented) return
      if (document.querySelector('dialog[open], nav :focus') === null) latest.current?.()
    }
    addEventListener('keydown', onKeyDown)
    return () => removeEventListener('keydown', onKeyDown)
  }, [])
}

interface Replacing {
  readonly old: string
  readonly by: string
}

/** The gateway drops replaced turns when the new one starts. A person expects it at once. */
function withoutReplaced(turns: readonly TurnView[], replacing: Replacing | undefined) {
  const first = turns.findIndex(({ turnId }) => turnId === replacing?.old)
  const last = turns.findIndex(({ turnId }) => turnId === replacing?.by)
  // A submit that was refused replaces nothing.
  const isRefused = turns[last]?.status === 'error' && turns[last].started === undefined
  return first < 0 || last < first || isRefused ? turns : turns.toSpliced(first, last - first)
}

function optional<K extends string, V>(name: K, value: V | undefined): Partial<Record<K, V>> {
  return value === undefined ? {} : ({ [name]: value } as Record<K, V>)
}

function useTitle(title: string | undefined): void {
  useEffect(() => {
    document.title = title === undefined ? 'turnstream' : `${title.slice(0, 60)} · turnstream`
  }, [title])
}

function firstPrompt(turns: readonly TurnView[]): string | undefined {
  const items = turns[0]?.items
  return items?.find((item) => item.type === 'message' && item.origin === 'user')?.content
}

/** A conversation before it has turns. */
function Loading({ state, onRetry }: { state: ThreadState; onRetry: () => void }) {
  const { status, cause, retryAt } = state.connection
  if (cause !== undefined) {
    return (
      <Trouble
        what="The conversation could not be loaded."
        cause={cause}
        retryAt={retryAt}
        isRetried={status !== 'failed' && isTemporary(cause)}
        onRetry={onRetry}
      />
    )
  }
  return status === 'connecting' ? <p class="hint loading">Loading…</p> : null
}

function Turns(props: {
  threadId: string
  state: ThreadState
  model: string | undefined
  onSubmit: (prompt: string, options: { replaces?: string }) => void
  onInspect: (turnId: string) => void
}) {
  const { threadId, state, model, onSubmit, onInspect } = props
  const [retry, setRetry] = useState<Retry>()
  /** Asks first when that drops later turns. */
  const onRetry = (prompt: string, turnId: string) => {
    const { turns } = client.thread(threadId).getSnapshot()
    const later = turns.length - 1 - turns.findIndex((turn) => turn.turnId === turnId)
    if (later > 0) setRetry({ prompt, turnId, later })
    else onSubmit(prompt, { replaces: turnId })
  }
  const [isLoading, setLoading] = useState(false)
  const loadOlder = async () => {
    setLoading(true)
    // A failed page can be requested again.
    await client
      .thread(threadId)
      .loadOlder()
      .catch(() => {})
    setLoading(false)
  }
  const isEmpty = state.turns.length === 0
  return (
    <>
      {state.hasOlder && (
        <button
          type="button"
          class="quiet older"
          disabled={isLoading}
          onClick={() => void loadOlder()}
        >
          {isLoading ? 'Loading…' : 'Show earlier messages'}
        </button>
      )}
      {isEmpty && <Loading state={state} onRetry={() => client.thread(threadId).reconnect()} />}
      {state.turns.map((turn, index) => (
        <Turn
          key={turn.turnId}
          turn={turn}
          isLast={index === state.turns.length - 1}
          model={model}
          onSubmit={onSubmit}
          onRetry={onRetry}
          onInspect={onInspect}
        />
      ))}
      {retry && (
        <Confirm
          label="Retry"
          action="Retry"
          onConfirm={() => onSubmit(retry.prompt, { replaces: retry.turnId })}
          onClose={() => setRetry(undefined)}
        >
          {`This replaces the answer and deletes the ${
            retry.later === 1 ? 'message that follows' : `${retry.later} messages that follow`
          } it.`}
        </Confirm>
      )}
    </>
  )
}
