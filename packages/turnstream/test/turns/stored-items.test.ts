import { describe, expect, test } from 'vitest'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import { type StreamEventPayload, TurnstreamError } from '../../../core/src/index.ts'
import { MemoryLog } from '../../src/server.ts'
import { readStoredItems } from '../../src/turns/thread-history.ts'
import { answer, call, delta, done, end, open } from './payloads.ts'
import { enveloped, newRig } from './rig.ts'

const SIGNAL = new AbortController().signal

function textsOf(payloads: readonly StreamEventPayload[]): string[] {
  return payloads.map((payload, index) =>
    JSON.stringify({ ...enveloped(payload), event_id: `0-${index}` }),
  )
}

/** Stores a turn and reads its items. */
async function stored(
  texts: readonly string[],
  { response, maxBytes = Infinity }: { response?: string; maxBytes?: number } = {},
) {
  const log = new MemoryLog()
  const lease = await log.create({ turnId: 't', threadId: 'h', owner: 'o' }, 1000)
  const all = [...texts, ...textsOf([end()])]
  const records = all.map((data, index) => ({ seq: index + 1, data }))
  const seal = { seal: true, ...(response !== undefined && { response }) }
  await appendTo(log, lease, 'events', records, seal)
  const turn = await log.getTurn('t')
  if (turn === undefined) throw new Error('there is no turn')
  return readStoredItems(log, turn, maxBytes, SIGNAL)
}

async function contents(...args: Parameters<typeof stored>): Promise<unknown[] | undefined> {
  const items = (await stored(...args))?.items
  return items?.map((item) => ('content' in item ? item.content : item.type))
}

const RESPONSE = JSON.stringify({ output_items: [{ type: 'message', id: 'a', content: 'Stored' }] })

describe('the items of a stored turn', () => {
  test('are those of its Response', async () => {
    const texts = textsOf(answer('a', 'One'))
    expect(await contents(texts, { response: RESPONSE })).toEqual(['Stored'])
    expect((await stored(texts, { response: RESPONSE }))?.bytes).toBe(RESPONSE.length)
  })

  test.each([
    ['a short history', 'Before', true],
    ['no history', undefined, true],
    ['a long history', 'x'.repeat(20_000), false],
  ])('are stored after %s, in a Response unless it is long', async (_name, before, hasResponse) => {
    const { submit, settled, log } = newRig({ rounds: [[...answer('a', 'One'), end()]] })
    const said = { type: 'message', origin: 'user', content: before ?? '' } as const
    await submit(before === undefined ? {} : { history: [said] })
    await settled()
    const turn = await log.getTurn('r')
    expect(turn?.responseBytes !== undefined).toBe(hasResponse)
    if (turn === undefined) throw new Error('there is no turn')
    const { items = [], isStart } = (await readStoredItems(log, turn, Infinity, SIGNAL)) ?? {}
    expect(isStart).toBe(before !== undefined)
    expect(items.map((item) => 'content' in item && item.content).at(-1)).toBe('One')
    if (before !== undefined) expect(items[0]).toMatchObject({ content: before })
  })

  test.each(['', '{', '[]', '{}', '{"output_items":{}}'])(
    'are read from the events if the Response is %j',
    async (response) => {
      expect(await contents(textsOf(answer('a', 'One')), { response })).toEqual(['One'])
    },
  )

  test('are read from the events of a turn without a Response', async () => {
    const payloads = [...answer('a', 'One'), ...call('c', 'ask'), ...answer('b', 'Two')]
    expect(await contents(textsOf(payloads))).toEqual(['One', 'function_call', 'Two'])
  })

  test('are read from their deltas when they have no final content', async () => {
    const texts = textsOf([...answer('a', 'One'), open('b'), delta('b', 'Tw'), delta('b', 'o')])
    expect(await contents(texts)).toEqual(['One', 'Two'])
  })

  test('are not confused by a text that looks like a delta', async () => {
    const trick = '"type":"item_delta","payload":{"type":"item_delta"'
    const texts = textsOf([open('a'), delta('a', trick), done('a', trick)])
    expect(await contents(texts)).toEqual([trick])
  })

  test('are those that can be read', async () => {
    const texts = textsOf(answer('a', 'One'))
    const alien = JSON.stringify({ ...JSON.parse(texts[0] ?? ''), type: 'alien' })
    expect(await contents([alien, ...texts])).toEqual(['One'])
  })

  test.each([
    { name: 'a Response', texts: textsOf(answer('a', 'One')), response: RESPONSE },
    { name: 'finished items', texts: textsOf([open('a'), done('a', 'x'.repeat(5000))]) },
    {
      name: 'items that only have deltas',
      texts: textsOf([open('a'), ...Array.from({ length: 50 }, () => delta('a', 'x'.repeat(100)))]),
    },
  ])('are nothing where $name would take more than is allowed', async ({ texts, ...rest }) => {
    expect(await stored(texts, { ...rest, maxBytes: 10 })).toBeUndefined()
    expect(await stored(texts, { ...rest, maxBytes: 10_000 })).toBeDefined()
  })

  test('are not read when they are too large', async () => {
    const log = new (class extends MemoryLog {
      override async getResponse(): Promise<string | undefined> {
        throw new TurnstreamError('INTERNAL_ERROR', 'it was read')
      }
    })()
    const turn = { turnId: 't', runId: 't', threadId: 'h', ordinal: 1, owner: 'o', epoch: 1 }
    const ended = { createdAt: 0, status: 'complete', sealed: true, expired: false } as const
    const record = { ...turn, ...ended, responseBytes: 11 }
    expect(await readStoredItems(log, record, 10, SIGNAL)).toBeUndefined()
  })
})
