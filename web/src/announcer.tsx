import type { ItemSnapshot } from '../../packages/core/src/protocol/stream-output.ts'

/** Only what is added is read. */
const KEPT = 10

/** Reads an answer to screen readers paragraph by paragraph: single words could not be followed. */
export function Announcer({ items }: { items: readonly ItemSnapshot[] }) {
  const paragraphs = items.flatMap(({ itemId, content, status }) => {
    const isFinal = status === 'complete' || status === 'error'
    const parts = content.split(/\n{2,}/)
    return (isFinal ? parts : parts.slice(0, -1)).map((text, index) => ({
      key: `${itemId} ${index}`,
      text,
    }))
  })
  return (
    <div class="hidden" role="log" aria-live="polite" aria-label="Answer">
      {paragraphs.slice(-KEPT).map(({ key, text }) => (
        <p key={key}>{text}</p>
      ))}
    </div>
  )
}
