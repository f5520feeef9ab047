import { useEffect, useRef, useState } from 'preact/hooks'
import { onKeyNeeded } from './gateway.ts'

interface Question {
  readonly message: string
  readonly answer: (key: string | undefined) => void
}

/** Asks for a key when the gateway requires one. */
export function KeyDialog() {
  const dialog = useRef<HTMLDialogElement>(null)
  const field = useRef<HTMLInputElement>(null)
  const [question, setQuestion] = useState<Question>()

  useEffect(() => {
    onKeyNeeded((message) => new Promise((answer) => setQuestion({ message, answer })))
  }, [])
  useEffect(() => {
    if (question !== undefined) dialog.current?.showModal()
  }, [question])

  const close = (key: string | undefined) => {
    question?.answer(key)
    setQuestion(undefined)
    dialog.current?.close()
  }
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    close(field.current?.value.trim() || undefined)
  }
  return (
    <dialog ref={dialog} aria-labelledby="key-title" onCancel={() => close(undefined)}>
      {question && (
        <form onSubmit={submit}>
          <h2 id="key-title">This server requires a key</h2>
          <p>{question.message}</p>
          <label>
            API key
            <input ref={field} type="password" autocomplete="off" required autofocus />
          </label>
          <p class="hint">It stays in this tab and is forgotten when you close it.</p>
          <div class="actions">
            <button type="button" onClick={() => close(undefined)}>
              Not now
            </button>
            <button type="submit" class="primary">
              Use key
            </button>
          </div>
        </form>
      )}
    </dialog>
  )
}
