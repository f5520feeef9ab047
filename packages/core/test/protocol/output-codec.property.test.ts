import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { StreamOutput } from '../../src/index.ts'
import { OutputEncoder } from '../../src/protocol/output-codec.ts'

const LONG = 'a "long" text\n'.repeat(50)

/** What JSON escapes, what ends a field, and halves of characters. */
const pieces = fc.oneof(
  fc.constantFrom('"', '\\', '\n', '\ud83d', '\ude00', '😀', 'é', '\u2028', '\0', ',"content":"'),
  fc.string({ unit: 'binary', maxLength: 8 }),
  fc.constant(LONG),
)
const turn = { turnId: 't', threadId: 'h' }
const snapshots = fc.record({
  itemId: fc.constantFrom('i:1', 'i:2', '","content":"'),
  status: fc.constantFrom('create', 'update', 'complete', 'error'),
  more: fc.constantFrom({ origin: 'agent' }, { origin: 'agent', finishReason: 'length' }, {}),
  /** What the text gains; undefined starts another one. */
  added: fc.option(pieces, { nil: undefined, freq: 6 }),
})

test('an output is encoded as by JSON.stringify, however its text grew', () => {
  fc.assert(
    fc.property(fc.array(snapshots, { maxLength: 30 }), (all) => {
      const encoder = new OutputEncoder()
      let content = ''
      for (const { itemId, status, more, added } of all) {
        content = added === undefined ? '' : content + added
        const output = { type: 'message', ...turn, itemId, status, content, ...more }
        expect(encoder.encode(output as StreamOutput)).toBe(JSON.stringify(output))
      }
      const end = { type: 'turn_complete', ...turn, status: 'complete' } as const
      expect(encoder.encode(end)).toBe(JSON.stringify(end))
    }),
  )
})
