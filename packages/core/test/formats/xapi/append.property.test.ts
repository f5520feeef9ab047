import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  AppendEncoder,
  appendFrameOf,
  appendSse,
  textSnapshotOf,
  xapiSse,
} from '../../../src/formats/xapi/write.ts'
import {
  applyAppend,
  type ItemSnapshot,
  type SnapshotStatus,
  SseDecoder,
} from '../../../src/index.ts'

/** Any UTF-16 units, with halves of characters among them. */
const text = fc.string({ unit: fc.nat(0xff_ff).map((unit) => String.fromCharCode(unit)) })
const status = fc.constantFrom<SnapshotStatus>('create', 'update', 'complete', 'error')

const step = fc.record({
  item: fc.constantFrom('a', 'b', 'c'),
  change: fc.oneof(
    fc.record({ grow: text }),
    fc.record({ replace: text }),
    fc.record({ errorCode: fc.constantFrom('X', 'Y') }),
  ),
  status,
})

test('a client that applies the frames has every snapshot exactly', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const encoder = new AppendEncoder()
      const decoder = new SseDecoder()
      const server = new Map<string, ItemSnapshot>()
      const client = new Map<string, ItemSnapshot>()
      for (const { item, change, status } of steps) {
        const base = { type: 'message', turnId: 't', threadId: 'h', itemId: item } as const
        const before = server.get(item) ?? { ...base, status, content: '', origin: 'agent' }
        const content = 'grow' in change ? before.content + change.grow : before.content
        const output: ItemSnapshot = {
          ...before,
          status,
          content: 'replace' in change ? change.replace : content,
          ...('errorCode' in change && { errorCode: change.errorCode }),
        }
        server.set(item, output)
        const payload = JSON.stringify(output)
        const snapshot = textSnapshotOf(output)
        const at = snapshot && encoder.place(snapshot)
        const frame =
          snapshot === undefined || at === undefined
            ? xapiSse('1-1', payload)
            : appendSse('1-1', appendFrameOf(snapshot, at))
        const [event] = decoder.feed(new TextEncoder().encode(frame))
        const data = JSON.parse(event?.data ?? '')
        const held = client.get(data.itemId)
        const shown = event?.event === 'append' ? held && applyAppend(held, data) : data
        client.set(data.itemId, shown)
        expect(shown).toEqual(output)
      }
    }),
  )
})
