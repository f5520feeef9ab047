import type { OutputItem } from '../protocol/output-item.ts'
import { EXECUTED_BY_PROVIDER, isExecutedByProvider } from '../protocol/tool-execution.ts'

type Metadata = Record<string, unknown>

// Tells what this server ran from what a vendor ran: to a vendor the former are ordinary calls.
const RUN_HERE = 'executed_here'

/** The metadata of a call that this server runs, or of its output: no client has to answer it. */
export function markedAsRunHere(metadata: Metadata | undefined): Metadata {
  return { ...metadata, executed_by: EXECUTED_BY_PROVIDER, [RUN_HERE]: true }
}

/** The item as its provider is told of it again: a call that it made, and the answer it got. */
export function withoutMark<Item extends OutputItem>(item: Item): Item {
  const { provider_metadata: metadata, ...rest } = item
  if (metadata?.[RUN_HERE] !== true || !isExecutedByProvider(metadata)) return item
  const { executed_by: _by, [RUN_HERE]: _here, ...vendors } = metadata
  const kept = Object.keys(vendors).length > 0 ? { provider_metadata: vendors } : {}
  return { ...rest, ...kept } as Item
}
