import { createFrameReader } from '../../../packages/client/src/client/sse.ts'
import { RESYNC_EVENT } from '../../../packages/core/src/protocol/names.ts'
import type { StreamEvent } from '../../../packages/core/src/protocol/stream-event.ts'
import { type Cause, isTemporary } from '../causes.ts'
import { request } from '../gateway.ts'
import type { Recording } from './recording.ts'

/** What the reader should know while events are loaded. */
export interface FeedState {
  readonly status: 'loading' | 'live' | 'lost' | 'ended' | 'failed'
  readonly cause?: Cause
  /** The numbers of events after which this page connected again. */
  readonly reconnects: readonly number[]
}

const RETRY_MS = 1000

interface FeedListener {
  readonly onChange: (state: FeedState) => void
  /** Called at the end if the recording is of an earlier turn with this id. */
  readonly onReplaced: () => void
}

/** Reads the events of a turn into a recording until they end or `signal` aborts. */
export async function follow(
  turnId: string,
  recording: Recording,
  { onChange, onReplaced }: FeedListener,
  signal: AbortSignal,
): Promise<void> {
  const reconnects: number[] = []
  let path: string | undefined
  while (!signal.aborted && !recording.isOver) {
    try {
      path ??= await streamPath(turnId)
      const onEvents = () => onChange({ status: 'live', reconnects })
      if (await readStream(path, recording, onEvents, signal)) return onReplaced()
    } catch (error) {
      if (signal.aborted) return
      const cause = error as Cause
      if (!isTemporary(cause)) {
        onChange({ status: 'failed', cause, reconnects })
        return
      }
      onChange({ status: 'lost', cause, reconnects })
    }
    if (recording.isOver || signal.aborted) break
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    reconnects.push(recording.length)
  }
  onChange({ status: 'ended', reconnects })
}

/** The URL has the id of the run, which is the turn id unless the client chose both. */
async function streamPath(turnId: string): Promise<string> {
  const { threadId } = await (await request(`/xapi/turns/${encodeURIComponent(turnId)}`)).json()
  let cursor: string | undefined
  do {
    const query = `replaced=true&limit=200${cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`}`
    const page = await (
      await request(`/api/v2/threads/${encodeURIComponent(threadId)}?${query}`)
    ).json()
    const found = page.turns.find((turn: { turnId: string }) => turn.turnId === turnId)
    if (found !== undefined) return `/api/v2/stream/${encodeURIComponent(found.runId)}`
    cursor = page.nextCursor
  } while (cursor !== undefined)
  throw Object.assign(new Error('The turn is not in its thread any more'), { code: 'TURN_UNKNOWN' })
}

/** Returns true if the turn is not the one of the recording. */
async function readStream(
  path: string,
  recording: Recording,
  onEvents: () => void,
  signal: AbortSignal,
): Promise<boolean> {
  const cursor = recording.offsets.at(-1)
  const query = cursor === undefined ? '' : `?from=${encodeURIComponent(cursor)}`
  const response = await request(`${path}${query}`, { signal })
  // Nothing follows, although the recording has no end.
  if (response.status === 204 || response.body === null) return cursor !== undefined
  const utf8 = new TextDecoder()
  const read = createFrameReader()
  const reader = response.body.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return false
    for (const { event, id, data } of read(utf8.decode(value, { stream: true }))) {
      if (event === RESYNC_EVENT && cursor !== undefined) return true
      // Other names are of a later version.
      if (data && event === undefined) recording.add(id, JSON.parse(data) as StreamEvent)
    }
    onEvents()
  }
}
