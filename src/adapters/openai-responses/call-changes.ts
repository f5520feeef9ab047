import type { ResponseWriter } from '../response-writer.ts'
import type { ToolCallChange } from '../tool-call-aggregator.ts'
import type { Fields } from './ending.ts'

/** Writes what has become of a call. `metadata` is what the vendor said of it beside the call itself. */
export function writeCallChange(
  writer: ResponseWriter,
  change: ToolCallChange,
  metadata: Fields = {},
): void {
  const { key, call } = change
  switch (change.change) {
    case 'opened':
      return writer.openItem(key, 'function_call', {
        call_id: call.id,
        ...(call.name !== '' && { name: call.name }),
      })
    case 'grown':
      return writer.append(key, change.fragment)
    case 'completed':
      return writer.finishItem(key, {
        content: call.args,
        name: call.name,
        call_id: call.id,
        provider_metadata: metadata,
      })
    case 'failed':
      return writer.failItem(key, change.error)
  }
}
