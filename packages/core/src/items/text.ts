import type { OutputItem } from '../protocol/output-item.ts'

/** Returns the text that deltas add to. */
export function textOf(item: OutputItem): string {
  switch (item.type) {
    case 'message':
    case 'reasoning':
      return item.content
    case 'function_call':
      return item.arguments
    case 'function_call_output':
      return item.output
    default:
      return ''
  }
}
