import type { Resync } from '../../log/turn-log.ts'

/** What a stream carries: raw events, snapshots of a turn or of all turns of a thread, or an answer as OpenAI's. */
export type StreamKind = 'v2' | 'xapi' | 'thread' | 'chat'

/** What is counted of the streams of a server, as plain numbers. */
export interface StreamCounts {
  /** How many are open. */
  readonly clients: Record<StreamKind, number>
  readonly resyncs: Record<Resync['resync'], number>
  /** Snapshots that were superseded before a reader that was there could take them. */
  skipped: number
}

export function newStreamCounts(): StreamCounts {
  return {
    clients: { v2: 0, xapi: 0, thread: 0, chat: 0 },
    resyncs: { foreign: 0, trimmed: 0 },
    skipped: 0,
  }
}
