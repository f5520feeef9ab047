import type { ItemSnapshot, SnapshotStatus } from './stream-output.ts'

/** What an item gained since its last frame, instead of the complete snapshot. */
export interface AppendFrame {
  /** On streams of several threads. */
  readonly threadId?: string
  readonly turnId?: string
  readonly itemId: string
  /** Length of the content before, in UTF-16 units. A client with another length has missed a frame. */
  readonly at: number
  readonly text: string
  /** Length of the content after. */
  readonly length: number
  readonly status: SnapshotStatus
}

/** Applies an append to an item. Returns undefined when it does not continue it: then reconnect without a cursor. */
export const applyAppend = <T extends ItemSnapshot>(item: T, frame: AppendFrame): T | undefined => {
  const content = item.content + frame.text
  const isNext =
    item.itemId === frame.itemId &&
    item.content.length === frame.at &&
    content.length === frame.length
  return isNext ? { ...item, content, status: frame.status } : undefined
}
