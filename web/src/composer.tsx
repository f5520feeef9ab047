import { useLayoutEffect, useRef } from 'preact/hooks'

interface ComposerProps {
  readonly models: readonly string[] | undefined
  readonly model: string | undefined
  readonly onModel: (model: string) => void
  readonly draft: string
  readonly onDraft: (draft: string) => void
  readonly isRunning: boolean
  readonly onSubmit: (prompt: string) => void
  readonly onStop: () => void
}

/** Enter sends, Shift+Enter begins a new line, Escape stops the answer. */
export function Composer(props: ComposerProps) {
  const { draft, isRunning } = props
  const field = useRef<HTMLTextAreaElement>(null)
  const canSend = draft.trim() !== '' && !isRunning

  useLayoutEffect(() => {
    const element = field.current
    if (element === null) return
    element.style.height = 'auto'
    element.style.height = `${element.scrollHeight}px`
  }, [draft])

  const send = () => {
    if (!canSend) return
    props.onSubmit(draft)
    props.onDraft('')
    field.current?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    // Enter also ends the input of Chinese, Japanese and Korean words.
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault()
      send()
    } else if (event.key === 'Escape' && isRunning) {
      props.onStop()
    }
  }
  const onSubmit = (event: SubmitEvent) => {
    event.preventDefault()
    send()
  }
  return (
    <form class="composer" onSubmit={onSubmit}>
      <textarea
        id="composer"
        ref={field}
        rows={1}
        placeholder="Write a message"
        aria-label="Message"
        value={draft}
        autofocus
        onInput={(event) => props.onDraft(event.currentTarget.value)}
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
        {isRunning ? (
          <button type="button" class="stop" onClick={props.onStop}>
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
