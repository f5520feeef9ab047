import { type Clock, sleep } from '../async/clock.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'

/** The events of a recording, each when its time has come: their timestamps are the pace. */
export async function* paced(
  recording: readonly StreamEvent[],
  speed: number,
  clock: Clock,
): AsyncGenerator<StreamEvent> {
  let before = recording[0]?.timestamp ?? 0
  for (const event of recording) {
    const ms = (event.timestamp - before) / speed
    before = event.timestamp
    if (ms > 0) await sleep(ms, clock)
    yield event
  }
}
