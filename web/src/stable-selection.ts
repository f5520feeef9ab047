import { useLayoutEffect } from 'preact/hooks'

/** An end of a selection. `chars` is its distance from the start of the text, if it is in the element. */
interface End {
  readonly node: Node | null
  readonly offset: number
  readonly chars?: number
}

/** Keeps what is selected in an element while its text grows: browsers forget it when a text node changes. */
export function useStableSelection(element: { readonly current: Element | null }): void {
  // Rendering comes before the document changes, and the effect after.
  const ends = element.current === null ? undefined : selectedIn(element.current)
  useLayoutEffect(() => {
    if (ends !== undefined && element.current !== null) select(element.current, ends)
  })
}

function selectedIn(root: Element): readonly [End, End] | undefined {
  const selection = getSelection()
  if (selection === null || selection.isCollapsed) return undefined
  const { anchorNode, anchorOffset, focusNode, focusOffset } = selection
  const ends = [endIn(root, anchorNode, anchorOffset), endIn(root, focusNode, focusOffset)] as const
  return ends.some(({ chars }) => chars !== undefined) ? ends : undefined
}

function endIn(root: Element, node: Node | null, offset: number): End {
  if (node === null || !root.contains(node)) return { node, offset }
  const before = document.createRange()
  before.setStart(root, 0)
  before.setEnd(node, offset)
  return { node, offset, chars: before.toString().length }
}

function select(root: Element, ends: readonly [End, End]): void {
  const selection = getSelection()
  const [anchor, focus] = ends.map((end) => (end.chars === undefined ? end : find(root, end.chars)))
  if (selection === null || !anchor?.node || !focus?.node) return
  const isSame =
    selection.anchorNode === anchor.node &&
    selection.anchorOffset === anchor.offset &&
    selection.focusNode === focus.node &&
    selection.focusOffset === focus.offset
  if (!isSame) selection.setBaseAndExtent(anchor.node, anchor.offset, focus.node, focus.offset)
}

/** The place after this many characters. */
function find(root: Element, chars: number): End {
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
  let rest = chars
  let last: Node = root
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
    const { length } = node as Text
    if (rest <= length) return { node, offset: rest }
    rest -= length
    last = node
  }
  return { node: last, offset: last === root ? 0 : (last as Text).length }
}
