import type { Token, Tokens } from 'marked'
import { useEffect, useState } from 'preact/hooks'

/** What one task may render: paragraphs, list items and thirds of table cells. */
const SLICE = 100

const weights = new WeakMap<Token, number>()

/** How much there is to render in a block, with everything inside it. */
export function weightOf(token: Token): number {
  const known = weights.get(token)
  if (known !== undefined) return known
  const { items = [], header = [], rows = [] } = token as Partial<Tokens.List & Tokens.Table>
  // What is inside a paragraph is read later.
  const inner = token.type === 'blockquote' || token.type === 'list_item' ? token.tokens : items
  const weight = (inner ?? []).reduce(
    (sum, each) => sum + weightOf(each),
    1 + (rows.length * header.length) / 3,
  )
  weights.set(token, weight)
  return weight
}

/**
 * How many of these parts to render: a slice at first, and one more with every frame, so that no task takes long. A part
 * that is heavier than a slice comes alone, and renders its own parts in slices.
 */
export function useSlices<T>(parts: readonly T[], weigh: (part: T) => number): number {
  const [budget, setBudget] = useState(SLICE)
  let count = 0
  let weight = 0
  while (count < parts.length && weight < budget) weight += weigh(parts[count++] as T)
  const isComplete = count === parts.length

  useEffect(() => {
    if (isComplete) return undefined
    const more = () => setBudget(budget + SLICE)
    if (document.visibilityState === 'visible') {
      const frame = requestAnimationFrame(more)
      return () => cancelAnimationFrame(frame)
    }
    // Hidden pages draw no frames.
    const timer = setTimeout(more)
    return () => clearTimeout(timer)
  }, [isComplete, budget])
  return count
}
