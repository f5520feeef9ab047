import { useEffect, useRef } from 'preact/hooks'

/** Focuses an element when something is over that had the focus. */
export function useFocusAfter<E extends HTMLElement>(isActive: boolean) {
  const element = useRef<E>(null)
  const wasActive = useRef(isActive)
  useEffect(() => {
    const isOver = wasActive.current && !isActive
    wasActive.current = isActive
    if (isOver && document.activeElement === document.body) element.current?.focus()
  }, [isActive])
  return element
}
