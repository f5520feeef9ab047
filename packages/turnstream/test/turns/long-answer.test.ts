import { expect, test, vi } from 'vitest'
import { systemClock } from '../../../core/src/async/clock.ts'
import type { StreamEventPayload } from '../../../core/src/index.ts'
import type { TurnLog } from '../../../core/src/log/turn-log.ts'
import { OutputEncoder } from '../../../core/src/protocol/output-codec.ts'
import { MemoryLog, Providers, TurnRunner } from '../../src/server.ts'
import { folderOfTest, openLog } from '../log/embedded/support.ts'
import { answer, end } from './payloads.ts'
import { PROMPT, puppet } from './rig.ts'

/** A snapshot of a long text comes after each eighth of growth, which sums up to nine texts; two more are its end. */
const MAX_ENCODED_PER_CHAR = 11

/** Up to 64 KB the gradient alone decides. */
const GRADIENT_CHARS = 300_000

const STORES = [
  { name: 'memory', open: async () => new MemoryLog({ clock: systemClock }) },
  { name: 'embedded', open: () => openLog(folderOfTest()) },
]

/** Runs a turn whose provider has the whole answer ready, and counts the characters of all encoded snapshots. */
async function encodedChars(log: TurnLog, said: readonly StreamEventPayload[]) {
  let chars = 0
  const spy = vi.spyOn(OutputEncoder.prototype, 'encode').mockImplementation((output) => {
    const json = JSON.stringify(output)
    chars += json.length
    return json
  })
  try {
    const provider = puppet([said])
    const providers = new Providers([{ provider, models: [], defaultModel: 'small' }])
    const runner = new TurnRunner({ log, instance: 'test', providers })
    const { turnId } = await runner.submit({ input: [PROMPT] })
    const signal = AbortSignal.timeout(60_000)
    for await (const record of log.tail(turnId, 'processed', '0-0', signal)) {
      if ('resync' in record) throw new Error(record.resync)
    }
    await expect.poll(() => runner.running).toBe(0)
    return { chars, turnId }
  } finally {
    spy.mockRestore()
  }
}

/** A text that comes in pieces, and its end. */
function textInPieces(pieces: number, charsEach: number): readonly StreamEventPayload[] {
  const [open, delta, done] = answer('1', 'x'.repeat(charsEach)) as [
    StreamEventPayload<'item_start'>,
    StreamEventPayload<'item_delta'>,
    StreamEventPayload<'item_done'>,
  ]
  const content = 'x'.repeat(pieces * charsEach)
  const final_item = { ...done.final_item, content } as typeof done.final_item
  return [open, ...Array<StreamEventPayload>(pieces).fill(delta), { ...done, final_item }, end()]
}

test.each(STORES)(
  'the snapshots of a long answer encode a constant multiple of its text: $name',
  async ({ open }) => {
    for (const pieces of [400, 2000]) {
      const log = await open()
      const { chars, turnId } = await encodedChars(log, textInPieces(pieces, 1000))
      expect(chars).toBeLessThan(pieces * 1000 * MAX_ENCODED_PER_CHAR + GRADIENT_CHARS)
      const { records } = await log.snapshot(turnId)
      expect(records.map(({ output }) => output)).toContainEqual(
        expect.objectContaining({ status: 'complete', content: 'x'.repeat(pieces * 1000) }),
      )
    }
  },
)
