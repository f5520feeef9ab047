import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

/** Asks before something is lost. Shown while it is mounted. */
export function Confirm(props: {
  label: string
  action: string
  onConfirm: () => void
  onClose: () => void
  children: ComponentChildren
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])

  const close = () => dialog.current?.close()
  const confirm = () => {
    close()
    props.onConfirm()
  }
  return (
    <dialog ref={dialog} aria-label={props.label} onClose={props.onClose}>
      <p>{props.children}</p>
      <div class="actions">
        <button type="button" autofocus onClick={close}>
          Keep
        </button>
        <button type="button" class="danger" onClick={confirm}>
          {props.action}
        </button>
      </div>
    </dialog>
  )
}
