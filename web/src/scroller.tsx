import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { TurnView } from '../../packages/client/src/index.ts'

/** Follows the newest text while the reader is at the end, and stays where the reader is when earlier turns come. */
export function Scroller(props: {
  turns: readonly TurnView[] | undefined
  children: ComponentChildren
}) {
  const { turns } = props
  const box = useRef<HTMLDivElement>(null)
  // A new conversation is read from the top.
  const isAtEnd = useRef(turns !== undefined)
  const [showsJump, setShowsJump] = useState(false)
  const keepPlace = usePlace(box, turns?.[0]?.turnId)

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
    else keepPlace()
  }, [turns])
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

/** Returns a function that scrolls what was the first turn to where it was. Browsers do not at the very top. */
function usePlace(box: { readonly current: Element | null }, firstId: string | undefined) {
  const known = useRef(firstId)
  // Rendering comes before the document changes.
  const turn = known.current === firstId ? null : (box.current?.querySelector('.turn') ?? null)
  const top = turn?.getBoundingClientRect().top ?? 0
  known.current = firstId
  return () => {
    if (box.current !== null && turn?.isConnected)
      box.current.scrollTop += turn.getBoundingClientRect().top - top
  }
}
