import { useLayoutEffect, useRef } from 'preact/hooks'
import { useDraft } from './drafts.ts'

interface ComposerProps {
  readonly models: readonly string[] | undefined
  readonly model: string | undefined
  readonly onModel: (model: string) => void
  readonly draftName: string
  readonly onSubmit: (prompt: string) => void
  /** Undefined while no answer is written. */
  readonly onStop: (() => void) | undefined
}

const ID = 'composer'

/** Not on phones and tablets: their keyboard would cover the answer. */
export function focusComposer(): void {
  if (matchMedia('(hover: hover)').matches) document.getElementById(ID)?.focus()
}

/** Enter sends, Shift+Enter begins a new line. */
export function Composer(props: ComposerProps) {
  const { onStop } = props
  const [draft = '', setDraft] = useDraft(props.draftName)
  const field = useRef<HTMLTextAreaElement>(null)
  const canSend = draft.trim() !== '' && onStop === undefined

  useLayoutEffect(() => {
    const element = field.current
    if (element === null) return
    element.style.height = 'auto'
    element.style.height = `${element.scrollHeight}px`
  }, [draft])

  const send = () => {
    if (!canSend) return
    setDraft(undefined)
    props.onSubmit(draft)
    field.current?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    // Enter also ends the input of Chinese, Japanese and Korean words.
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault()
      send()
    }
  }
  const stop = () => {
    onStop?.()
    // The button is disabled after that.
    focusComposer()
  }
  const onSubmit = (event: SubmitEvent) => {
    event.preventDefault()
    send()
  }
  return (
    <form class="composer" onSubmit={onSubmit}>
      <textarea
        id={ID}
        dir="auto"
        ref={field}
        rows={1}
        placeholder="Write a message"
        aria-label="Message"
        value={draft}
        autofocus
        onInput={(event) => setDraft(event.currentTarget.value || undefined)}
        onKeyDown={onKeyDown}
      />
      <div class="controls">
        <label class="model">
          <span class="hidden">Model</span>
          <select
            value={props.model}
            disabled={props.models === undefined}
            onChange={(event) => props.onModel(event.currentTarget.value)}
          >
            {props.models?.map((id) => (
              <option key={id} value={id}>
                {id}
              </option>
            ))}
          </select>
        </label>
        {onStop ? (
          <button type="button" class="stop" onClick={stop}>
            Stop
          </button>
        ) : (
          <button type="submit" class="primary" disabled={!canSend}>
            Send
          </button>
        )}
      </div>
    </form>
  )
}
