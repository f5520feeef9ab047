/** P1 to P5: when text that grows is shown. */
import { delta, done, fail, open } from './events.ts'
import type { Row } from './scenario.ts'

const x = (length: number) => 'x'.repeat(length)
const byTime = { batchGradient: [] }

export const thresholdRows: Row[] = [
  {
    name: 'P1 tokens are counted over the whole content and rounded up',
    // Counted delta by delta these would be 14 tokens; together they are 11.
    script: [open('m'), ...Array.from({ length: 13 }, () => delta('m', 'abc')), delta('m', 'de')],
    shows: [{ status: 'create', content: `${'abc'.repeat(13)}de` }],
  },
  {
    name: 'P1 initial content counts',
    script: [open('m', { initial_content: x(40) }), delta('m', 'y')],
    shows: [{ status: 'create', content: `${x(40)}y` }],
  },
  {
    name: 'P1 the estimate can be replaced',
    options: { estimateTokens: (length) => length },
    script: [open('m'), delta('m', x(10)), delta('m', 'y')],
    shows: [{ status: 'create', content: `${x(10)}y` }],
  },
  {
    name: 'P2 forty characters at threshold 10 are silent',
    script: [open('m'), delta('m', x(40))],
    shows: [],
  },
  {
    name: 'P2 forty-one characters emit',
    script: [open('m'), delta('m', x(41))],
    shows: [{ status: 'create', content: x(41) }],
  },
  {
    name: 'P3 after an emission the index is at the next threshold not exceeded',
    options: { batchGradient: [10, 10, 20] },
    // 80 characters are exactly 20 tokens: past 10, at 20, so the next threshold is 20.
    script: [open('m'), delta('m', x(80)), delta('m', 'y')],
    shows: [{ content: x(80) }, { content: `${x(80)}y` }],
  },
  {
    name: 'P3 a timer emission below the threshold leaves the index alone',
    script: [open('m'), delta('m', x(40)), { wait: 1000 }, delta('m', 'y')],
    shows: [
      { status: 'create', content: x(40) },
      { status: 'update', content: `${x(40)}y` },
    ],
  },
  {
    name: 'P3 a flush below the threshold leaves the index alone',
    script: [open('m'), delta('m', x(40)), 'flush', delta('m', 'y')],
    shows: [{ status: 'create' }, { status: 'update', content: `${x(40)}y` }],
  },
  {
    name: 'P4 past its end the gradient repeats its last step',
    options: { batchGradient: [10, 20] },
    script: [open('m'), ...[41, 80, 80, 80].map((length) => delta('m', x(length)))],
    shows: [41, 121, 201, 281].map((length) => ({ content: x(length) })),
  },
  {
    name: 'P4 an empty gradient emits by time and completion only',
    options: byTime,
    script: [open('m'), delta('m', x(100_000)), { wait: 1000 }, delta('m', 'y'), done('m', 'z')],
    shows: [
      { status: 'create', content: x(100_000) },
      { status: 'complete', content: 'z' },
    ],
  },
  {
    name: 'P5 a start never emits, however much content it has',
    script: [open('m', { initial_content: x(1000) })],
    shows: [],
  },
  {
    name: 'P5 the first emission by timer is create, the next update',
    script: [open('m'), delta('m', 'a'), { wait: 1000 }, delta('m', 'b'), { wait: 1000 }],
    shows: [
      { status: 'create', content: 'a' },
      { status: 'update', content: 'ab' },
    ],
  },
  {
    name: 'P5 the first emission by flush is create',
    script: [open('m'), delta('m', 'a'), 'flush', 'flush'],
    shows: [{ status: 'create', content: 'a' }],
  },
  {
    name: 'P5 short content that fails is one error',
    script: [open('m'), delta('m', 'a'), fail('m', 'E', 'why')],
    shows: [{ status: 'error', content: 'a' }],
  },
]
