import { describe, expect, test } from 'vitest'
import type { StreamEvent } from '../../../src/index.ts'
import {
  aborted,
  call,
  cancel,
  delta,
  done,
  open,
  responseDone,
  start,
} from '../../processor/events.ts'
import { encodeAll, hear, sseOf } from './write-support.ts'

const ATTEMPT = [start(), open('a'), delta('a', 'Half an ans'), cancel('a', 'attempt_reset')]

const WAITS = [delta('b', 'Again.'), call('c', 'c1', '{}')]

const CONTINUATIONS: [what: string, events: StreamEvent[]][] = [
  ['another text', [open('b'), delta('b', 'Again.')]],
  ['a whole text', [done('b', 'Again.')]],
  ['a call', [call('b', 'c1', '{}')]],
  ['a call after text that waits', [open('x'), open('b'), ...WAITS]],
  ['nothing', []],
]

describe('text that was sent and then withdrawn', () => {
  test.each(CONTINUATIONS)('ends the stream with an error before %s', (_what, events) => {
    const turn = [...ATTEMPT, ...events, responseDone({ finish_reason: 'stop' })]
    const heard = hear(encodeAll(turn))
    expect(heard).toMatchObject({ content: 'Half an ans', error: { code: 'ITEM_CANCELLED' } })
    expect(heard.finish).toBeUndefined()
    const sse = sseOf(turn)
    expect(sse).not.toContain('Again')
    expect(sse).toMatch(/withdrawn: attempt_reset.*\n\ndata: \[DONE\]\n\n$/)
  })

  test('of a cancelled turn is reported as cancelled', () => {
    const frames = encodeAll([...ATTEMPT, aborted('stop')])
    expect(hear(frames)).toMatchObject({ error: { code: 'ABORTED' } })
  })
})

test('text that is withdrawn before it was sent is left out', () => {
  const turn = [
    start(),
    open('a'),
    delta('a', 'First. '),
    open('b'),
    delta('b', 'Waits'),
    cancel('b', 'attempt_reset'),
    done('a', 'First. '),
    done('c', 'Second.'),
    responseDone({ finish_reason: 'stop' }),
  ]
  expect(hear(encodeAll(turn))).toMatchObject({ content: 'First. Second.', error: undefined })
})
