import { useLayoutEffect, useRef } from 'preact/hooks'
import { type Cause, isAboutKey, sentenceFor } from './causes.ts'
import { focusComposer } from './composer.tsx'
import { useSeconds } from './countdown.ts'
import { useDelivery } from './outbox.ts'

interface TroubleProps {
  /** What does not work, as a sentence. */
  readonly what?: string
  readonly cause: Cause
  /** When it is tried again. Undefined while it is tried, and if it is not. */
  readonly retryAt: number | undefined
  /** Whether it is tried again without a person. */
  readonly isRetried: boolean
  readonly onRetry: () => void
  /** Shown while the gateway refuses to be asked earlier. */
  readonly onStop?: () => void
}

/** Why something does not work, what happens next and when. */
export function Trouble({ what, cause, retryAt, isRetried, onRetry, onStop }: TroubleProps) {
  const box = useRef<HTMLDivElement>(null)
  useLayoutEffect(
    () => () => {
      // The button disappears with the trouble.
      if (box.current?.contains(document.activeElement)) focusComposer()
    },
    [],
  )
  // The gateway refuses earlier requests.
  const canRetry = !(isRetried && (cause.retryAfterMs ?? 0) > 0)
  return (
    <div class={isRetried ? 'notice trouble' : 'notice trouble error'} ref={box}>
      <p>
        <span role="status">
          {what !== undefined && <b>{what} </b>}
          {sentenceFor(cause)}
        </span>{' '}
        {isRetried && <NextTry at={retryAt} />}
      </p>
      {canRetry && (
        <button type="button" onClick={onRetry}>
          {isAboutKey(cause) ? 'Enter a key' : isRetried ? 'Try now' : 'Try again'}
        </button>
      )}
      {!canRetry && onStop && (
        <button type="button" onClick={onStop}>
          Stop
        </button>
      )}
    </div>
  )
}

/** Not in a live region: it would be read every second. */
export function NextTry({ at = 0 }: { at: number | undefined }) {
  const seconds = useSeconds(at)
  return <span>{at > Date.now() ? `Trying again in ${seconds} s.` : 'Trying again…'}</span>
}

/** A command that waits to be sent again. Nothing while it does not. */
export function Unsent(props: { id: string; what: string; onStop?: () => void }) {
  const { id, ...rest } = props
  const { cause, retryAt, retry } = useDelivery(id) ?? {}
  if (cause === undefined || retry === undefined) return null
  return <Trouble {...rest} cause={cause} retryAt={retryAt} isRetried onRetry={retry} />
}
