import { TurnstreamError } from '../../../../core/src/index.ts'
import type { LogName, LogRecord, Resync, Tail } from '../../../../core/src/log/turn-log.ts'
import { START } from '../../../src/log/offsets.ts'
import { MemoryLog } from '../../../src/server.ts'

/** A log whose first three records are gone. */
export class TrimmedLog extends MemoryLog {
  override tail<Name extends LogName>(
    turnId: string,
    name: Name,
    after: string,
    signal: AbortSignal,
  ): Tail<LogRecord<Name>> {
    const rest = super.tail(turnId, name, '1-3', signal)
    let state: 'before' | 'announced' | 'begun' = 'before'
    return {
      get cursor() {
        if (state === 'begun') return rest.cursor
        return state === 'announced' ? START : after
      },
      caughtUp: rest.caughtUp,
      async *[Symbol.asyncIterator](): AsyncGenerator<LogRecord<Name> | Resync> {
        state = 'announced'
        yield { resync: 'trimmed' }
        state = 'begun'
        yield* rest
      },
    }
  }
}

/** A log that can be written, and not read. */
export class UnreadableLog extends MemoryLog {
  override async getResponse(): Promise<never> {
    throw new TurnstreamError('STORE_UNAVAILABLE', 'the wire was cut')
  }

  override tail<Name extends LogName>(): Tail<LogRecord<Name>> {
    return {
      cursor: START,
      caughtUp: new Promise(() => {}),
      // oxlint-disable-next-line require-yield -- it fails before there is anything to yield
      async *[Symbol.asyncIterator](): AsyncGenerator<never> {
        throw new TurnstreamError('STORE_UNAVAILABLE', 'the wire was cut')
      },
    }
  }
}
