import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { StreamOutput } from '../../../core/src/index.ts'
import { setUp } from '../../../core/test/processor/sinks.ts'
import { type RandomTurn, randomTurn } from '../../../core/test/processor/turns.ts'
import { apply, EMPTY_VIEW, prepend, type View } from '../../src/index.ts'

/** What the processor makes of a random turn. */
async function outputsOf({ events }: RandomTurn): Promise<StreamOutput[]> {
  const { processor, accepted } = setUp({ batchGradient: [1, 2] })
  for (const event of events) await processor.processEvent(event)
  await processor.destroy()
  return accepted
}

function viewOf(outputs: readonly StreamOutput[]): View {
  return outputs.reduce(apply, EMPTY_VIEW)
}

/** The items by id: when outputs arrive in another order, so do the items. */
function itemsById({ turns }: View): unknown[] {
  return turns.map((turn) => ({
    ...turn,
    items: Object.fromEntries(turn.items.map((item) => [item.itemId, item])),
  }))
}

test('a stream that goes back anywhere, any number of times, gives the same view', async () => {
  const places = fc.array(fc.tuple(fc.nat(200), fc.nat(200)), { maxLength: 5 })
  await fc.assert(
    fc.asyncProperty(randomTurn, places, async (turn, cuts) => {
      const outputs = await outputsOf(turn)
      const replayed = cuts.flatMap(([upTo, backTo]) =>
        outputs.slice(Math.min(backTo, upTo) % (outputs.length + 1), upTo),
      )
      const first = outputs.slice(0, 1)
      const view = viewOf([...first, ...replayed, ...outputs])
      expect(itemsById(view)).toEqual(itemsById(viewOf(outputs)))
    }),
    { numRuns: 100 },
  )
})

test('outputs in any order and number give the same view', async () => {
  await fc.assert(
    fc.asyncProperty(
      randomTurn,
      fc.infiniteStream(fc.nat(1000)),
      fc.nat(20),
      async (turn, random, more) => {
        const outputs = await outputsOf(turn)
        const pick = () => outputs[Number(random.next().value) % outputs.length]
        const doubled = [...outputs, ...Array.from({ length: more }, pick)] as StreamOutput[]
        const shuffled = doubled
          .map((output) => ({ output, place: Number(random.next().value) }))
          .toSorted((a, b) => a.place - b.place)
          .map(({ output }) => output)
        expect(itemsById(viewOf(shuffled))).toEqual(itemsById(viewOf(outputs)))
      },
    ),
    { numRuns: 100 },
  )
})

test('V4 calls completed in later turns: streaming, and loading page by page, give the same view', () => {
  const answer = fc.record({ call: fc.nat(5), turn: fc.nat(5) })
  fc.assert(
    fc.property(
      fc.array(answer, { maxLength: 8 }),
      fc.integer({ min: 1, max: 6 }),
      (answers, page) => {
        const turns = Array.from({ length: 6 }, (_, at) => turnOutputs(at, answers))
        const streamed = viewOf(turns.flat())
        let loaded = EMPTY_VIEW
        for (let end = turns.length; end > 0; end -= page) {
          loaded = prepend(loaded, viewOf(turns.slice(Math.max(0, end - page), end).flat()))
        }
        expect(loaded).toEqual(streamed)
        const items = streamed.turns.flatMap((turn) => turn.items.map(({ itemId }) => itemId))
        expect(items).toEqual(['call-0', 'call-1', 'call-2', 'call-3', 'call-4', 'call-5'])
      },
    ),
    { numRuns: 200 },
  )
})

/** A turn that makes a call, and completes those of earlier turns. */
function turnOutputs(at: number, answers: readonly { call: number; turn: number }[]) {
  const ids = { turnId: `t${at}`, threadId: 'h' }
  const tool = { type: 'tool_call', content: '', toolName: 'look', toolArguments: {} } as const
  const done = answers
    .filter(({ call, turn }) => turn === at && call < at)
    .map(({ call }): StreamOutput => {
      const result = { status: 'complete', toolOutput: 'x', success: true } as const
      return { ...tool, ...ids, ...result, itemId: `call-${call}`, callId: `c${call}` }
    })
  const open = { itemId: `call-${at}`, callId: `c${at}`, status: 'create' } as const
  const started: StreamOutput = { type: 'turn_started', ...ids }
  return [started, ...done, { ...tool, ...ids, ...open }]
}
