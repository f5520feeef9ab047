import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { ConnectionState, ThreadState, TurnView } from '../../src/client.ts'
import { useThread } from '../../src/react.ts'
import { Composer } from './composer.tsx'
import { ConnectionNotice } from './connection-notice.tsx'
import { client } from './gateway.ts'
import { MenuIcon } from './icons.tsx'
import { showThread } from './location.ts'
import { useModelChoice } from './model-choice.ts'
import { threadsChanged } from './threads.ts'
import { noteSubmit } from './timings.ts'
import { Turn } from './turn.tsx'
import { Welcome } from './welcome.tsx'

interface ChatProps {
  readonly threadId: string | undefined
  readonly models: readonly string[] | undefined
  readonly modelsError: string | undefined
  readonly onMenu: () => void
  readonly onInspect: (turnId: string) => void
}

/** One conversation, or the start of a new one. */
export function Chat({ threadId, models, modelsError, onMenu, onInspect }: ChatProps) {
  const [model, setModel] = useModelChoice(models)
  const [draft, setDraft] = useState('')
  const [replacing, setReplacing] = useState<Replacing>()
  const followed = useThread(client, threadId)
  const turns = withoutReplaced(followed.turns, replacing)
  const state = threadId === undefined ? undefined : { ...followed, turns }
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
  }

  return (
    <main class="chat">
      <Header
        title={title ?? 'Conversation'}
        connection={state?.connection}
        onMenu={onMenu}
        onRetry={() => client.thread(threadId ?? '').reconnect()}
      />
      <Scroller turns={state?.turns}>
        {state === undefined ? (
          <Welcome
            models={models}
            error={modelsError}
            onPrompt={(prompt, example) => {
              setModel(example)
              submit(prompt, { model: example })
            }}
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
        models={models}
        model={model}
        onModel={setModel}
        draft={draft}
        onDraft={setDraft}
        isRunning={running !== undefined}
        onSubmit={(prompt) => submit(prompt)}
        onStop={() => running && void client.cancel(running.turnId, 'stopped by the user')}
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
      <h1>{title}</h1>
      {connection && <ConnectionNotice connection={connection} onRetry={onRetry} />}
    </header>
  )
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

function Turns(props: {
  threadId: string
  state: ThreadState
  model: string | undefined
  onSubmit: (prompt: string, options: { replaces?: string }) => void
  onInspect: (turnId: string) => void
}) {
  const { threadId, state, model, onSubmit, onInspect } = props
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
  const { status } = state.connection
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
      {state.turns.length === 0 && status === 'connecting' && <p class="hint loading">Loading…</p>}
      {state.turns.map((turn, index) => (
        <Turn
          key={turn.turnId}
          turn={turn}
          isLast={index === state.turns.length - 1}
          model={model}
          onSubmit={onSubmit}
          onInspect={onInspect}
        />
      ))}
    </>
  )
}

/** Follows the newest text while the reader is at the end. */
function Scroller(props: {
  turns: readonly TurnView[] | undefined
  children: preact.ComponentChildren
}) {
  const box = useRef<HTMLDivElement>(null)
  const hasTurns = props.turns !== undefined
  // A new conversation is read from the top.
  const isAtEnd = useRef(hasTurns)
  const [showsJump, setShowsJump] = useState(false)

  const toEnd = () => {
    const element = box.current
    if (element !== null) element.scrollTop = element.scrollHeight
  }
  const onScroll = () => {
    const element = box.current
    if (element === null) return
    isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 48
    setShowsJump(!isAtEnd.current)
  }
  useLayoutEffect(() => {
    if (isAtEnd.current) toEnd()
  }, [props.turns])
  // Cards open, code is highlighted, the keyboard of a phone appears: the size changes without new turns.
  useEffect(() => {
    const content = box.current?.firstElementChild
    if (content == null) return undefined
    const observer = new ResizeObserver(() => isAtEnd.current && toEnd())
    observer.observe(content)
    return () => observer.disconnect()
  }, [])

  return (
    <div
      class="scroller"
      ref={box}
      onScroll={onScroll}
      tabIndex={0}
      role="region"
      aria-label="Messages"
    >
      <div class="messages">{props.children}</div>
      {showsJump && (
        <button type="button" class="jump" onClick={toEnd}>
          ↓ Newest
        </button>
      )}
    </div>
  )
}
