import { memo } from 'preact/compat'
import { useEffect, useRef } from 'preact/hooks'
import type { TurnView } from '../../packages/client/src/index.ts'
import type { ItemSnapshot } from '../../packages/core/src/protocol/stream-output.ts'
import { adviceFor } from './advice.ts'
import { Announcer } from './announcer.tsx'
import { CopyButton } from './copy-button.tsx'
import { useDraft } from './drafts.ts'
import { useFocusAfter } from './focus-after.ts'
import { onPlainClick } from './location.ts'
import { Markdown } from './markdown/markdown.tsx'
import { cancelPath } from './outbox.ts'
import { PendingCalls } from './pending-calls.tsx'
import { ThinkingCard } from './thinking-card.tsx'
import { describeWait, noteEnd, noteFirstWords } from './timings.ts'
import { ToolCard } from './tool-card.tsx'
import { Unsent } from './trouble.tsx'
import { Waiting } from './waiting.tsx'

interface TurnProps {
  readonly turn: TurnView
  readonly isLast: boolean
  /** What `onSubmit` uses: a new one renders again. */
  readonly model: string | undefined
  readonly onSubmit: (prompt: string, options: { replaces?: string }) => void
  /** Submits a prompt again in place of its turn. */
  readonly onRetry: (prompt: string, turnId: string) => void
  /** Shows the inspector beside the chat. */
  readonly onInspect: (turnId: string) => void
}

/** One prompt and its answer. It renders only when its own turn changes. */
export const Turn = memo(TurnCard, (before, after) => {
  return (
    before.turn === after.turn && before.isLast === after.isLast && before.model === after.model
  )
})

function TurnCard({ turn, isLast, onSubmit, onRetry, onInspect }: TurnProps) {
  const { turnId, items, status } = turn
  const isRunning = status === 'running'
  const answer = items.filter((item) => item.type === 'message' && item.origin === 'agent')
  const prompt = items.find((item) => item.type === 'message' && item.origin === 'user')?.content
  const hasAnswer = items.some((item) => !isPrompt(item))

  // While it renders, so that the facts below have it.
  if (hasAnswer) noteFirstWords(turnId)
  if (!isRunning) noteEnd(turnId)

  const retry = prompt === undefined ? undefined : () => onRetry(prompt, turnId)
  return (
    <article class={isRunning ? 'turn' : 'turn settled'} aria-busy={isRunning}>
      {items.map((item) => (
        <Item
          key={item.itemId}
          item={item}
          onEdit={isRunning ? undefined : (text) => onSubmit(text, { replaces: turnId })}
        />
      ))}
      {isRunning && !hasAnswer && <Waiting turn={turn} />}
      {isRunning && <Unsent id={cancelPath(turnId)} what="Not stopped yet." />}
      <Ending turn={turn} onRetry={retry} />
      {isLast && <PendingCalls turn={turn} />}
      {!isRunning && (
        <footer>
          {answer.length > 0 && (
            <CopyButton text={answer.map(({ content }) => content).join('\n\n')} />
          )}
          {retry && status !== 'error' && (
            <button type="button" class="quiet" onClick={retry}>
              Retry
            </button>
          )}
          <a
            class="quiet"
            href={`inspect/${encodeURIComponent(turnId)}`}
            onClick={(event) => onPlainClick(event, () => onInspect(turnId))}
          >
            Inspect
          </a>
          <Facts turn={turn} />
        </footer>
      )}
      {isLast && <Announcer items={answer} />}
    </article>
  )
}

function isPrompt(item: ItemSnapshot): boolean {
  return item.type === 'message' && item.origin !== 'agent'
}

/** An item renders only when it changes. */
const Item = memo(
  ({ item, onEdit }: { item: ItemSnapshot; onEdit: ((text: string) => void) | undefined }) => {
    if (item.type === 'thinking') return <ThinkingCard item={item} />
    if (item.type === 'tool_call') return <ToolCard call={item} />
    if (item.origin !== 'agent') return <Prompt item={item} onEdit={onEdit} />
    const isFinal = item.status === 'complete' || item.status === 'error'
    return (
      <div class="answer">
        <Markdown text={item.content} isFinal={isFinal} />
      </div>
    )
  },
  (before, after) =>
    before.item === after.item && (before.onEdit === undefined) === (after.onEdit === undefined),
)

function Prompt(props: { item: ItemSnapshot; onEdit: ((text: string) => void) | undefined }) {
  const { item, onEdit } = props
  const [draft, setDraft] = useDraft(`edit ${item.itemId}`)
  const isEditing = draft !== undefined && onEdit !== undefined
  const field = useRef<HTMLTextAreaElement>(null)
  const isOpening = useRef(false)
  const button = useFocusAfter<HTMLButtonElement>(isEditing)

  useEffect(() => {
    if (isOpening.current) field.current?.focus()
    isOpening.current = false
  }, [isEditing])

  const edit = () => {
    isOpening.current = true
    setDraft(item.content)
  }

  if (!isEditing) {
    return (
      <div class="prompt">
        <p dir="auto">{item.content}</p>
        {onEdit && (
          <button type="button" class="quiet" ref={button} onClick={edit}>
            Edit
          </button>
        )}
      </div>
    )
  }
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    setDraft(undefined)
    if (draft.trim() !== '') onEdit(draft)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Escape' || event.isComposing) return
    event.preventDefault()
    setDraft(undefined)
  }
  return (
    <form class="prompt editing" onSubmit={submit} onKeyDown={onKeyDown}>
      <textarea
        aria-label="Edited message"
        dir="auto"
        rows={Math.min(12, draft.split('\n').length + 1)}
        value={draft}
        onInput={(event) => setDraft(event.currentTarget.value)}
        ref={field}
      />
      <p class="hint">What follows this message is replaced.</p>
      <div class="actions">
        <button type="button" onClick={() => setDraft(undefined)}>
          Cancel
        </button>
        <button type="submit" class="primary">
          Send again
        </button>
      </div>
    </form>
  )
}

/** How the turn ended, unless it simply ended. */
function Ending({ turn, onRetry }: { turn: TurnView; onRetry: (() => void) | undefined }) {
  const { end } = turn
  if (end === undefined) return null
  if (end.type === 'turn_error') {
    return (
      <div class="notice error" role="alert">
        <p>
          <b>{end.error.message}</b>
        </p>
        <p>
          {adviceFor(end.error.code)} <code>{end.error.code}</code>
        </p>
        {onRetry && (
          <button type="button" onClick={onRetry}>
            Retry
          </button>
        )}
      </div>
    )
  }
  if (end.status === 'aborted') return <p class="notice">Stopped.</p>
  if (end.finishReason === 'length') {
    return <p class="notice">The answer reached the limit of tokens and was cut off.</p>
  }
  if (end.finishReason === 'content_filter') {
    return <p class="notice">The provider withheld the rest of this answer.</p>
  }
  return null
}

function Facts({ turn }: { turn: TurnView }) {
  const { started, end } = turn
  const { usage, startedAt, endedAt } = end ?? {}
  const facts = [
    started?.modelId &&
      (started.providerId ? `${started.providerId}/${started.modelId}` : started.modelId),
    usage &&
      `${usage.estimated ? 'about ' : ''}${usage.promptTokens} → ${usage.completionTokens} tokens`,
    // The clocks of this page and of the server measure different things: one or the other.
    describeWait(turn.turnId) ??
      (startedAt !== undefined &&
        endedAt !== undefined &&
        `${((endedAt - startedAt) / 1000).toFixed(1)} s`),
  ]
  return <span class="facts">{facts.filter(Boolean).join(' · ')}</span>
}
