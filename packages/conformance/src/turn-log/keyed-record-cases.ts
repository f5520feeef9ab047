import { equal, rejects } from './assert.ts'
import { type Cases, LONG_MS, RETENTION_MS, SHORT_MS, soon, withRetention } from './given.ts'
import { eventsUpTo } from './texts.ts'

// Not every store can fast-forward time, and a busy machine needs some slack.
const BRIEF_MS = 500
const SLACK_MS = 200

const YES = '{"approved":true}'
const NO = 'no: é漢😀'

function numbered(from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, at) => `value-${from + at}`)
}

export const tenantRecordCases: Cases = {
  'read returns the newest value of each key, in the order of the keys': async (given) => {
    const { keyedRecords } = given
    await keyedRecords.add('one', 'old', LONG_MS)
    await keyedRecords.add('one', 'new', LONG_MS)
    await keyedRecords.add('two', '', LONG_MS)
    const found = await keyedRecords.read(['two', 'none', 'one', 'one'])
    equal(found, ['', undefined, 'new', 'new'], 'the values')
    equal(await keyedRecords.read([]), [], 'the values of no keys')
    equal(await keyedRecords.read(['one']), ['new'], 'a value that was read before')
  },
  'consume removes the newest value and returns it': async ({ keyedRecords }) => {
    for (const value of ['first', 'second', 'second']) await keyedRecords.add('key', value, LONG_MS)
    const consumed = []
    for (let count = 0; count < 4; count++) consumed.push(await keyedRecords.consume('key'))
    equal(consumed, ['second', 'second', 'first', undefined], 'the values')
    equal(await keyedRecords.read(['key']), [undefined], 'the value of an emptied key')
    await keyedRecords.add('key', 'again', LONG_MS)
    equal(await keyedRecords.consume('key'), 'again', 'a value added afterwards')
  },
  'a key holds 16 values, and the oldest go first': async ({ keyedRecords }) => {
    for (const value of numbered(1, 20)) await keyedRecords.add('key', value, LONG_MS)
    const consumed = []
    for (let count = 0; count < 17; count++) consumed.push(await keyedRecords.consume('key'))
    equal(consumed, [...numbered(5, 20).toReversed(), undefined], 'the values')
  },
  'values come back as written, for all characters of keys': async ({ keyedRecords }) => {
    const value = `1:2\u0000\n"\\:é漢😀\u2028${'x'.repeat(480)}`
    for (const key of ['k', '__proto__', 'é漢😀:/?#[]', 'k'.repeat(200), '1:2', 'note']) {
      await keyedRecords.add(key, value, LONG_MS)
      equal(await keyedRecords.read([key]), [value], `the value of ${key}`)
      equal(await keyedRecords.consume(key), value, `the consumed value of ${key}`)
    }
  },
  'an expired value is not returned, and does not hide or displace another': async (given) => {
    await given.keyedRecords.add('brief', 'gone', BRIEF_MS)
    await given.keyedRecords.add('mixed', 'long', LONG_MS)
    for (const value of numbered(1, 15)) await given.keyedRecords.add('mixed', value, BRIEF_MS)
    const read = () => given.keyedRecords.read(['brief', 'mixed'])
    equal(await read(), ['gone', 'value-15'], 'the values before')
    await given.under.elapse(BRIEF_MS + SLACK_MS)
    equal(await read(), [undefined, 'long'], 'the values after')
    equal(await given.keyedRecords.consume('brief'), undefined, 'an expired value')
    await given.keyedRecords.add('mixed', 'newest', LONG_MS)
    equal(await given.keyedRecords.consume('mixed'), 'newest', 'a value added afterwards')
    equal(await given.keyedRecords.consume('mixed'), 'long', 'a value from before')
    equal(await given.keyedRecords.consume('mixed'), undefined, 'an expired value below it')
  },
  'a value added later with a shorter time leaves the others their time': async (given) => {
    await given.keyedRecords.add('key', 'long', LONG_MS)
    await given.keyedRecords.add('key', 'brief', BRIEF_MS)
    equal(await given.keyedRecords.consume('key'), 'brief', 'the newest value')
    await given.keyedRecords.add('key', 'brief', BRIEF_MS)
    await given.under.elapse(BRIEF_MS + SLACK_MS)
    equal(await given.keyedRecords.read(['key']), ['long'], 'what is left')
  },
  'each value is consumed by one of many calls, from several processes': async (given) => {
    const all = [given.keyedRecords, (await given.elsewhere()).keyedRecords] as const
    const values = numbered(1, 10)
    await Promise.all(
      values.map((value, at) => all[at % 2 === 0 ? 0 : 1].add('key', value, LONG_MS)),
    )
    const calls = numbered(1, 20).map((_, at) => all[at % 3 === 0 ? 1 : 0].consume('key'))
    const consumed = await Promise.all(calls)
    const found = consumed.filter((value) => value !== undefined)
    equal(found.toSorted(), values.toSorted(), 'the values')
  },
  'other processes see a change at once': async (given) => {
    const other = await given.elsewhere()
    await given.keyedRecords.add('key', 'value', LONG_MS)
    equal(await other.keyedRecords.read(['key']), ['value'], 'the value')
    equal(await other.keyedRecords.consume('key'), 'value', 'the consumed value')
    equal(await given.keyedRecords.read(['key']), [undefined], 'what is left')
  },
  'invalid keys, values, times and more than 64 keys are RECORD_INVALID': async (given) => {
    const { keyedRecords } = given
    const keys = ['', 'white space', '{brace}', 'k'.repeat(201), '\ud800']
    for (const key of keys) {
      await rejects(keyedRecords.add(key, 'value', LONG_MS), 'RECORD_INVALID', 'an added value')
      await rejects(keyedRecords.read(['key', key]), 'RECORD_INVALID', 'a read')
      await rejects(keyedRecords.consume(key), 'RECORD_INVALID', 'a consumption')
    }
    for (const value of ['v'.repeat(501), 'half \ud800']) {
      await rejects(keyedRecords.add('key', value, LONG_MS), 'RECORD_INVALID', 'an invalid value')
    }
    for (const ttlMs of [0, -1, 0.5, Number.NaN, Infinity]) {
      await rejects(keyedRecords.add('key', 'value', ttlMs), 'RECORD_INVALID', `${ttlMs} ms`)
    }
    const many = numbered(1, 65)
    await rejects(keyedRecords.read(many), 'RECORD_INVALID', '65 keys')
    equal((await keyedRecords.read(many.slice(1))).length, 64, 'the number of values')
    equal(await keyedRecords.read(['key']), [undefined], 'what was stored')
  },
  'values of the same key of two tenants are apart': async (given) => {
    const beta = given.ofTenant('beta').log
    await given.keyedRecords.add('key', 'own', LONG_MS)
    equal(await beta.keyedRecords.read(['key']), [undefined], "another tenant's read")
    equal(await beta.keyedRecords.consume('key'), undefined, "another tenant's take")
    await beta.keyedRecords.add('key', 'theirs', LONG_MS)
    equal(await given.keyedRecords.consume('key'), 'own', 'the own value')
    equal(await beta.keyedRecords.consume('key'), 'theirs', "the other tenant's value")
  },
  'keyed records have nothing to do with turns, runs and threads': async (given) => {
    await given.createSealed('id', { threadId: 'id' })
    await given.keyedRecords.add('id', 'value', LONG_MS)
    await given.log.deleteThread('id')
    equal(await given.keyedRecords.read(['id']), ['value'], 'the value')
    equal(await given.log.getTurn('id'), undefined, 'the turn')
  },
  'added values survive a restart, and consumed ones do not return': async (given) => {
    for (const value of ['left', 'consumed']) await given.keyedRecords.add('key', value, LONG_MS)
    await given.keyedRecords.add('brief', 'gone', BRIEF_MS)
    await given.keyedRecords.consume('key')
    const again = await given.reopened()
    await given.under.elapse(BRIEF_MS + SLACK_MS)
    equal(await again.keyedRecords.read(['key', 'brief']), ['left', undefined], 'the values')
    equal(await again.keyedRecords.consume('key'), 'left', 'the consumed value')
    equal(await again.keyedRecords.consume('key'), undefined, 'what is left')
  },
}

export const turnKeyCases: Cases = {
  'the owner gets the value of a key while it waits': async (given) => {
    const lease = await given.create('turn')
    const first = soon(given.keyedRecords.watch(lease, 'one', given.signal))
    const second = soon(given.keyedRecords.watch(lease, 'two', given.signal))
    const stored = await given.keyedRecords.addOnce('turn', 'two', NO)
    equal(stored, { isAdded: true, value: NO }, 'the result')
    equal(await second, NO, 'the second value')
    await given.keyedRecords.addOnce('turn', 'one', YES)
    equal(await first, YES, 'the first value')
  },
  'the owner gets a value from before it waited, as often as it waits': async (given) => {
    const lease = await given.create('turn')
    await given.keyedRecords.addOnce('turn', 'one', YES)
    for (let time = 0; time < 2; time++) {
      equal(await given.keyedRecords.watch(lease, 'one', given.signal), YES, 'the value')
    }
  },
  'the first value wins, and later calls get it': async (given) => {
    const lease = await given.create('turn')
    await given.keyedRecords.addOnce('turn', 'one', NO)
    const second = await given.keyedRecords.addOnce('turn', 'one', YES)
    equal(second, { isAdded: false, value: NO }, 'the second result')
    const same = await given.keyedRecords.addOnce('turn', 'one', NO)
    equal(same, { isAdded: false, value: NO }, 'the result of the same value again')
    equal(await given.keyedRecords.watch(lease, 'one', given.signal), NO, 'the value')
  },
  'of many values at the same time, from several processes, one is stored': async (given) => {
    const all = [given.keyedRecords, (await given.elsewhere()).keyedRecords] as const
    const lease = await given.create('turn')
    const calls = numbered(1, 20).map((value, at) =>
      all[at % 3 === 0 ? 1 : 0].addOnce('turn', 'one', value),
    )
    const results = await Promise.all(calls)
    equal(results.filter(({ isAdded }) => isAdded).length, 1, 'the number of added values')
    const winner = await given.keyedRecords.watch(lease, 'one', given.signal)
    for (const { value } of results) equal(value, winner, 'the value that a caller gets')
  },
  'a cancelled turn and a sealed log keep their values and accept no more': async (given) => {
    await given.create('cancelled')
    await given.keyedRecords.addOnce('cancelled', 'one', YES)
    await given.log.requestCancel('cancelled', '')
    const lease = await given.create('sealed')
    await given.keyedRecords.addOnce('sealed', 'one', YES)
    await given.append(lease, 'events', eventsUpTo('sealed', 2), { seal: true })
    for (const turnId of ['cancelled', 'sealed']) {
      const late = await given.keyedRecords.addOnce(turnId, 'two', YES)
      equal(late, { isAdded: false }, `a value for a ${turnId} turn`)
      const before = await given.keyedRecords.addOnce(turnId, 'one', NO)
      equal(before, { isAdded: false, value: YES }, `the value before it was ${turnId}`)
    }
    await rejects(given.keyedRecords.addOnce('other', 'one', YES), 'TURN_UNKNOWN', 'no turn')
  },
  'find returns the value of a key of a turn, also after its end': async (given) => {
    const { keyedRecords } = given.log
    const lease = await given.create('turn')
    equal(await keyedRecords.find('turn', 'one'), undefined, 'no value')
    await keyedRecords.addOnce('turn', 'one', '')
    equal(await keyedRecords.find('turn', 'one'), '', 'the value')
    await given.seal(lease)
    equal(await keyedRecords.find('turn', 'one'), '', 'the value after the end')
    await rejects(keyedRecords.find('other', 'one'), 'TURN_UNKNOWN', 'no turn')
  },
  'the next owner gets the value too': async (given) => {
    await given.createOrphan('turn')
    await given.keyedRecords.addOnce('turn', 'one', YES)
    const lease = await given.log.claim('turn', 'heir', LONG_MS)
    equal(await given.keyedRecords.watch(lease, 'one', given.signal), YES, 'the value')
  },
  'waiting for a value rejects with ABORTED when its signal aborts': async (given) => {
    const lease = await given.create('turn')
    const waiting = new AbortController()
    const heard = soon(given.keyedRecords.watch(lease, 'one', waiting.signal))
    waiting.abort()
    await rejects(heard, 'ABORTED', 'waiting')
    const aborted = AbortSignal.abort()
    await rejects(given.keyedRecords.watch(lease, 'one', aborted), 'ABORTED', 'waiting in vain')
  },
  'waiting for a value is LEASE_LOST after a claim or a deletion': async (given) => {
    const old = await given.createOrphan('turn')
    const heard = soon(given.keyedRecords.watch(old, 'one', given.signal))
    const lease = await given.log.claim('turn', 'heir', LONG_MS)
    await rejects(heard, 'LEASE_LOST', 'waiting with the old lease')
    await given.keyedRecords.addOnce('turn', 'one', YES)
    const again = given.keyedRecords.watch(old, 'one', given.signal)
    await rejects(again, 'LEASE_LOST', 'a value for the old lease')
    const gone = soon(given.keyedRecords.watch(lease, 'two', given.signal))
    await given.log.deleteTurn('turn')
    await rejects(gone, 'LEASE_LOST', 'waiting with a deleted turn')
  },
  'a recreated turn has none of the values of the deleted one': async (given) => {
    await given.create('turn')
    await given.keyedRecords.addOnce('turn', 'one', YES)
    await given.log.deleteTurn('turn')
    await rejects(given.keyedRecords.addOnce('turn', 'one', NO), 'TURN_UNKNOWN', 'a deleted turn')
    await given.create('turn')
    equal((await given.keyedRecords.addOnce('turn', 'one', NO)).isAdded, true, 'the new value')
  },
  'a value expires with the logs of its turn': withRetention(RETENTION_MS, async (given) => {
    const lease = await given.create('turn')
    await given.keyedRecords.addOnce('turn', 'one', YES)
    await given.seal(lease)
    await given.under.elapse(RETENTION_MS + SLACK_MS)
    const late = given.keyedRecords.addOnce('turn', 'one', NO)
    await rejects(late, 'TURN_EXPIRED', 'a value for an expired turn')
    await rejects(given.keyedRecords.find('turn', 'one'), 'TURN_EXPIRED', 'an expired value')
  }),
  'a turn has 200 keys, each with a value of at most 16,000 characters': async (given) => {
    const { keyedRecords } = given.log
    await given.create('turn')
    const long = 'v'.repeat(16_000)
    await keyedRecords.addOnce('turn', 'key-1', long)
    equal(await keyedRecords.find('turn', 'key-1'), long, 'the longest value')
    for (let at = 2; at <= 200; at++) await keyedRecords.addOnce('turn', `key-${at}`, `${at}`)
    for (const [key, value] of [
      ['key-201', 'value'],
      ['key-1', `${long}v`],
      ['key-1', 'half \ud800'],
      ['white space', 'value'],
    ] as const) {
      await rejects(keyedRecords.addOnce('turn', key, value), 'RECORD_INVALID', key)
    }
    const known = await keyedRecords.addOnce('turn', 'key-200', 'late')
    equal(known, { isAdded: false, value: '200' }, 'a value at the limit')
  },
  'values survive a restart': async (given) => {
    await given.create('turn', {}, SHORT_MS)
    await given.keyedRecords.addOnce('turn', '__proto__', NO)
    const log = await given.reopened()
    const again = await log.keyedRecords.addOnce('turn', '__proto__', YES)
    equal(again, { isAdded: false, value: NO }, 'the result after a restart')
  },
  'values of the same turn of two tenants are apart': async (given) => {
    const beta = given.ofTenant('beta')
    const lease = await given.create('turn')
    const other = await beta.create('turn')
    const waits = new AbortController()
    const heard = soon(beta.log.keyedRecords.watch(other, 'one', waits.signal))
    await given.keyedRecords.addOnce('turn', 'one', YES)
    equal(await given.keyedRecords.watch(lease, 'one', given.signal), YES, 'the value')
    equal((await beta.log.keyedRecords.addOnce('turn', 'two', NO)).isAdded, true, 'the other value')
    waits.abort()
    await rejects(heard, 'ABORTED', 'waiting in the other tenant')
  },
  'the owner gets a value from another process within a second': async (given) => {
    const other = await given.elsewhere()
    for (const turnId of ['turn-1', 'turn-2', 'turn-3']) {
      const lease = await given.create(turnId)
      const heard = soon(given.keyedRecords.watch(lease, 'one', given.signal))
      await other.keyedRecords.addOnce(turnId, 'one', YES)
      const addedAt = Date.now()
      equal(await heard, YES, 'the value')
      const took = Date.now() - addedAt
      equal(took <= 1000, true, `that ${took} ms are a second at most`)
    }
  },
}
