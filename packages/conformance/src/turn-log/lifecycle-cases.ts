import { LOG_NAMES } from '@turnstream/core/internal/log/turn-log'
import { equal, rejects } from './assert.ts'
import { type Cases, type Given, LONG_MS, SHORT_MS, soon } from './given.ts'
import { offsets, readAll, texts } from './reading.ts'
import { stateOf } from './tenants.ts'
import { counted, delta, deltas, eventsUpTo, message, numbered, outputsOf } from './texts.ts'

const ESCAPES = '\\ud83d \\ude00\\ud83d \\u0000 \\u2028 \\u2029 \\b\\f\\n\\r\\t \\" \\\\ \\/'

function rawEvent(content: string): string {
  return `{"event_id":"00000000-0000-8000-a000-000000000001","timestamp":17,"trace_context":{"traceparent":"x"},"run_id":"turn","type":"item_delta","payload":{"type":"item_delta","item_id":"i","delta_content":"${content}"}}`
}

/** Events whose JSON a store might be tempted to normalize. */
const EVENT_TEXTS: readonly (readonly [what: string, text: string])[] = [
  ['plain', rawEvent('text')],
  ['empty text', rawEvent('')],
  ['characters of every width', rawEvent('aé漢😀\u2028\ufeff\u{10ffff}')],
  ['escapes', rawEvent(ESCAPES)],
  ['a megabyte', rawEvent('漢字 kana '.repeat(110_000))],
  ['a delta with another field', rawEvent('a').replace('"item_id"', '"extra":[null],"item_id"')],
  ['with another field', rawEvent('a').replace('"run_id"', '"extra":{"1":1,"0":0},"run_id"')],
  ['a delta without payload', '{"event_id":"e","timestamp":1,"type":"item_delta"}'],
  ['in another order', '{"type":"x","timestamp":1,"payload":{"type":"x"},"event_id":"e"}'],
  ['with numbers in odd forms', '{"event_id":"e","timestamp":1.50e1,"n":[1.0,-0,1E+2,1e-7]}'],
  ['with odd characters in its id', '{"event_id":"\\ud800\\n\\"-00000001","timestamp":5}'],
  ['with a fraction as time', '{"event_id":"e-00000002","timestamp":1.25,"type":"t"}'],
  ['with a time before 1970', '{"event_id":"e-00000003","timestamp":-1,"type":"t"}'],
]

async function state(given: Given) {
  return {
    done: await stateOf(given, 'done'),
    open: [await given.log.getTurn('open'), await given.log.snapshot('open')],
    processed: await given.read('done', 'processed'),
  }
}

export const lifecycleCases: Cases = {
  'L7 an event comes back as written, as an object and as JSON': async (given) => {
    const lease = await given.create('turn')
    const records = numbered(EVENT_TEXTS.map(([, data]) => data))
    await given.append(lease, 'events', records)
    const open = await given.take('turn', 'events', records.length)
    const last = records.length + 1
    await given.append(lease, 'events', eventsUpTo('turn', last, last), { seal: true })
    const sealed = await given.read('turn', 'events')
    for (const [index, [what, text]] of EVENT_TEXTS.entries()) {
      const event: unknown = JSON.parse(text)
      equal(open[index]?.data, JSON.stringify(event), `the JSON of an event that is ${what}`)
      equal(open[index]?.event, event, `an event that is ${what}`)
      equal(sealed[index], open[index], `an event that is ${what}, after the seal`)
    }
  },
  'L7 an output comes back as written, as an object and as JSON': async (given) => {
    const lease = await given.create('turn')
    const contents = ['', 'aé漢😀\u2028\ufeff', ESCAPES, '\u0000\n', '漢字 '.repeat(250_000)]
    const records = numbered(contents.map((text, index) => message('turn', `item-${index}`, text)))
    await given.append(lease, 'processed', records)
    const { records: stored } = await given.log.snapshot('turn')
    equal(texts(stored), texts(records), 'the texts')
    const outputs = stored.map(({ output }) => output)
    const written = records.map(({ data }): unknown => JSON.parse(data))
    equal(outputs, written, 'the outputs')
  },
  'L1 close ends every reader and listener with STORE_CLOSED and is idempotent': async (given) => {
    const { log } = given
    const lease = await given.create('turn')
    await given.append(lease, 'events', deltas('turn', 1, 1))
    const waits = LOG_NAMES.map((name) => soon(readAll(given.tail('turn', name))))
    const listens = soon(log.cancelled(lease, given.signal))
    const asks = soon(log.keyedRecords.watch(lease, 'one', given.signal))
    await given.take('turn', 'events', 1)
    await Promise.all([log.close(), log.close()])
    await log.close()
    for (const each of waits) await rejects(each, 'STORE_CLOSED', 'a tail')
    await rejects(listens, 'STORE_CLOSED', 'listening for a cancel')
    await rejects(asks, 'STORE_CLOSED', 'watching a keyed record')
  },
  'L1 every call after close is STORE_CLOSED': async (given, log) => {
    const lease = await given.create('turn')
    await log.close()
    const calls: Record<string, () => Promise<unknown>> = {
      ofTenant: async () => log.ofTenant('beta'),
      create: () => given.create('other'),
      claim: () => log.claim('turn', 'heir', LONG_MS),
      renew: () => log.renew(lease, LONG_MS),
      write: () => given.append(lease, 'events', deltas('turn', 1, 1)),
      tail: () => readAll(given.tail('turn', 'events')),
      snapshot: () => log.snapshot('turn'),
      getResponse: () => log.getResponse('turn'),
      expired: () => log.expired(1),
      orphans: () => log.orphans(1),
      requestCancel: () => log.requestCancel('turn', 'x'),
      cancelled: () => log.cancelled(lease, given.signal),
      addOnce: () => log.keyedRecords.addOnce('turn', 'one', ''),
      find: () => log.keyedRecords.find('turn', 'one'),
      watch: () => log.keyedRecords.watch(lease, 'one', given.signal),
      getTurn: () => log.getTurn('turn'),
      getTurnOfRun: () => log.getTurnOfRun('turn'),
      listTurns: () => log.listTurns('thread'),
      putThread: () => log.putThread({ threadId: 'thread' }),
      getThread: () => log.getThread('thread'),
      listThreads: () => log.listThreads(),
      deleteTurn: () => log.deleteTurn('turn'),
      deleteThread: () => log.deleteThread('thread'),
      add: () => log.keyedRecords.add('key', 'value', LONG_MS),
      read: () => log.keyedRecords.read(['key']),
      consume: () => log.keyedRecords.consume('key'),
      storedBytes: () => log.storedBytes(),
    }
    for (const [name, call] of Object.entries(calls)) await rejects(call(), 'STORE_CLOSED', name)
  },
  'L1 close waits for earlier writes': async (given) => {
    const lease = await given.create('turn')
    const appends = counted(1, 20, (seq) => delta('turn', seq)).map((record) =>
      soon(given.append(lease, 'events', [record])),
    )
    await given.log.close()
    await Promise.all(appends)
  },
  'L3 acknowledged records survive a restart': async (given) => {
    const { log } = given
    await log.putThread({ threadId: 'thread', title: 'T', metadata: { a: [1] } })
    await given.createSealed('done', { threadId: 'thread', runId: 'run', request: 'r' })
    const open = await given.create('open', {}, SHORT_MS)
    await given.append(open, 'events', deltas('open', 1, 5))
    await given.append(open, 'processed', outputsOf('open', 'aba').slice(0, 4))
    await log.requestCancel('open', 'user')
    const before = await state(given)
    equal(await state(await given.reopened()), before, 'what is there after the restart')
  },
  'L5 a turn open at a restart can be claimed, finished and read on': async (given) => {
    const lease = await given.create('turn', { threadId: 'thread' }, SHORT_MS)
    await given.append(lease, 'events', deltas('turn', 1, 5))
    await given.append(lease, 'processed', outputsOf('turn', 'ab').slice(0, 3))
    const again = await given.reopened()
    const { log } = again
    await given.under.elapse(SHORT_MS)
    equal(await log.expired(10), ['turn'], 'the orphans')
    const heir = await log.claim('turn', 'heir', LONG_MS)
    equal([heir.epoch, heir.next], [2, { events: 6, processed: 4 }], 'the lease')
    const late = again.append(lease, 'events', deltas('turn', 6, 6))
    await rejects(late, 'LEASE_LOST', 'the old lease')
    await again.append(heir, 'events', eventsUpTo('turn', 7, 6), { seal: true })
    await again.append(heir, 'processed', outputsOf('turn', 'ab').slice(3), { seal: true })
    const events = await again.read('turn', 'events', '1-3')
    equal(offsets(events), ['1-4', '1-5', '2-6', '2-7'], 'what follows 1-3')
    await again.create('next', { threadId: 'thread' })
    equal((await log.getTurn('next'))?.ordinal, 2, 'the ordinal of the next turn')
  },
}
