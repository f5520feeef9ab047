import { describe, expect, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import type { StreamOutput } from '../../../../core/src/index.ts'
import { RawClient } from './raw-client.ts'
import { createTurn, openLog, STORES, serve } from './server.ts'
import { outputsOf } from './turns.ts'

const TURN = '/xapi/turns/turn/stream'
const THREAD = '/xapi/threads/thread/stream'
const THREADS = '/xapi/streams?threads=thread'
/** Both texts have grown; neither has ended. */
const GROWN = outputsOf('turn').slice(0, 7)

function toRecords(outputs: readonly StreamOutput[], first = 1) {
  return outputs.map((output, at) => ({ seq: first + at, data: JSON.stringify(output) }))
}

/** `<itemId> <status>` of the frames so far. */
function statuses(client: RawClient): string[] {
  return client.events
    .filter(({ data }) => data.includes('itemId'))
    .map(({ data }) => {
      const { itemId, status } = JSON.parse(data)
      return `${itemId} ${status}`
    })
}

describe.each(STORES)('the first frame of an unfinished item (%s)', (store) => {
  async function serveGrown() {
    const log = await openLog(store)
    const lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'processed', toRecords(GROWN))
    return { log, lease, ...(await serve(log)) }
  }

  test.each([TURN, THREAD, THREADS])(
    'is create for a reader that comes late (%s)',
    async (path) => {
      for (const encoding of ['snapshot', 'append']) {
        const { port } = await serveGrown()
        const separator = path.includes('?') ? '&' : '?'
        const client = await RawClient.open(port, `${path}${separator}encoding=${encoding}`)
        await client.until(() => statuses(client).length === 3)
        expect(statuses(client)).toEqual(['prompt complete', 'think create', 'answer create'])
        expect(client.body.toString()).toContain('\\"quoted\\"')
        client.close()
      }
    },
  )

  test.each([
    ['1-2', ['think create', 'answer create']],
    // `think` began with record 3, `answer` with record 4.
    ['1-3', ['think update', 'answer create']],
    ['1-4', ['think update', 'answer update']],
    ['1-5', ['answer update']],
  ])('is create after %s only if the item began later', async (from, expected) => {
    for (const encoding of ['snapshot', 'append']) {
      const { port } = await serveGrown()
      const paths = [
        `${TURN}?encoding=${encoding}&from=${from}`,
        `${THREAD}?encoding=${encoding}&from=turn/${from}`,
      ]
      for (const path of paths) {
        const client = await RawClient.open(port, path)
        await client.until(() => statuses(client).length === expected.length)
        expect(statuses(client)).toEqual(expected)
        client.close()
      }
    }
  })

  test('is create once on a connection, and update afterwards', async () => {
    const { log, lease, port } = await serveGrown()
    for (const encoding of ['snapshot', 'append']) {
      const client = await RawClient.open(port, `${TURN}?encoding=${encoding}`)
      await client.until(() => statuses(client).length === 3)
      const seq = encoding === 'snapshot' ? 8 : 9
      const more = { ...GROWN[6], content: `Größe: ${seq}` } as StreamOutput
      await appendTo(log, lease, 'processed', toRecords([more], seq))
      await client.until(() => statuses(client).length === 4)
      expect(statuses(client).at(-1)).toBe('answer update')
      client.close()
    }
  })

  test('is create in loaded JSON, which the stream continues with update', async () => {
    const { log, lease, port } = await serveGrown()
    for (const [path, isThread] of [
      ['/xapi/turns/turn', false],
      ['/xapi/threads/thread', true],
    ] as const) {
      const json = await (await fetch(`http://127.0.0.1:${port}${path}`)).json()
      const { outputs, offset } = isThread ? json.turns[0] : json
      const loaded = outputs.map(({ itemId, status }: { itemId?: string; status?: string }) => [
        ...[itemId, status],
      ])
      expect(loaded.slice(1)).toEqual([
        ['prompt', 'complete'],
        ['think', 'create'],
        ['answer', 'create'],
      ])
      expect(offset).toBe(`1-${GROWN.length + (isThread ? 1 : 0)}`)
      if (isThread) continue
      const client = await RawClient.open(port, `${TURN}?from=${offset}`)
      const more = { ...GROWN[4], content: 'Let me see …\n\nYes, and' } as StreamOutput
      await appendTo(log, lease, 'processed', toRecords([more], 8))
      await client.until(() => statuses(client).length === 1)
      expect(statuses(client)).toEqual(['think update'])
      client.close()
    }
  })
})
