/** What a submit reads of the earlier turns of its thread. */

import { expect, test } from 'vitest'
import type { LogName, LogRecord, Tail } from '../../../core/src/log/turn-log.ts'
import { MemoryLog } from '../../src/server.ts'
import { delta, done, end, open } from './payloads.ts'
import { newRig, PROMPT, tick } from './rig.ts'

/** Counts the events that are read of each turn. */
class CountingLog extends MemoryLog {
  readonly events = new Map<string, number>()

  override tail<Name extends LogName>(
    turnId: string,
    name: Name,
    after: string,
    signal: AbortSignal,
  ): Tail<LogRecord<Name>> {
    const tail = super.tail(turnId, name, after, signal)
    if (name !== 'events') return tail
    const count = () => this.events.set(turnId, (this.events.get(turnId) ?? 0) + 1)
    return {
      get cursor() {
        return tail.cursor
      },
      caughtUp: tail.caughtUp,
      async *[Symbol.asyncIterator]() {
        for await (const each of tail) {
          count()
          yield each
        }
      },
    }
  }
}

const WORDS = 500

test('a submit reads no event of the earlier turns', async () => {
  const log = new CountingLog()
  const text = 'word '.repeat(WORDS)
  const round = [
    open('a'),
    ...Array.from({ length: WORDS }, () => delta('a', 'word ')),
    done('a', text),
    end(),
  ]
  const rig = newRig({ log, rounds: [round, round, round] })
  for (const runId of ['one', 'two', 'three']) {
    await rig.submit({ runId, threadId: 'h', input: [PROMPT] })
    await tick(rig.clock)
    await rig.settled()
  }
  expect(rig.provider.calls.at(-1)?.request.input.map((item) => item.id)).toEqual([
    'one-user-prompt',
    'one:1',
    'two-user-prompt',
    'two:1',
    'three-user-prompt',
  ])
  expect(Object.fromEntries(log.events)).toEqual({})
})
