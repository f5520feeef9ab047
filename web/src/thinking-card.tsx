import { useRef, useState } from 'preact/hooks'
import type { Thinking } from '../../packages/core/src/protocol/stream-output.ts'
import { useStableSelection } from './stable-selection.ts'

/** Two lines, the newest while it is written; a click shows all of it. */
export function ThinkingCard({ item }: { item: Thinking }) {
  const [isOpen, setOpen] = useState(false)
  const text = useRef<HTMLParagraphElement>(null)
  useStableSelection(text)
  const isRunning = item.status !== 'complete' && item.status !== 'error'
  return (
    <section class={isOpen ? 'card thinking open' : 'card thinking'}>
      <button
        type="button"
        class="card-head"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        <span class={isRunning ? 'dot busy' : 'dot'}>{isRunning ? 'Thinking' : 'Thought'}</span>
        <span class="chevron" aria-hidden="true" />
      </button>
      <div class="card-body" tabIndex={isOpen ? 0 : -1} role="group" aria-label="Thinking">
        <p dir="auto" ref={text}>
          {item.content}
        </p>
      </div>
    </section>
  )
}
