import { equal, rejects } from './assert.ts'
import { type Case, LONG_MS } from './given.ts'

// Not every store can fast-forward time, and a busy machine needs some slack.
const BRIEF_MS = 500
const SLACK_MS = 200

function numbered(from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, at) => `value-${from + at}`)
}

/** Short values under keys. */
export const noteCases: readonly Case[] = [
  {
    name: 'readNotes returns the newest value of each key, in the order of the keys',
    async run({ log }) {
      await log.addNote('one', 'old', LONG_MS)
      await log.addNote('one', 'new', LONG_MS)
      await log.addNote('two', '', LONG_MS)
      const found = await log.readNotes(['two', 'none', 'one', 'one'])
      equal(found, ['', undefined, 'new', 'new'], 'the values')
      equal(await log.readNotes([]), [], 'the values of no keys')
      equal(await log.readNotes(['one']), ['new'], 'a value that was read before')
    },
  },
  {
    name: 'takeNote removes the newest value and returns it',
    async run({ log }) {
      for (const value of ['first', 'second', 'second']) await log.addNote('key', value, LONG_MS)
      const taken = []
      for (let count = 0; count < 4; count++) taken.push(await log.takeNote('key'))
      equal(taken, ['second', 'second', 'first', undefined], 'the values')
      equal(await log.readNotes(['key']), [undefined], 'the value of an emptied key')
      await log.addNote('key', 'again', LONG_MS)
      equal(await log.takeNote('key'), 'again', 'a value added afterwards')
    },
  },
  {
    name: 'a key holds 16 values, and the oldest go first',
    async run({ log }) {
      for (const value of numbered(1, 20)) await log.addNote('key', value, LONG_MS)
      const taken = []
      for (let count = 0; count < 17; count++) taken.push(await log.takeNote('key'))
      equal(taken, [...numbered(5, 20).toReversed(), undefined], 'the values')
    },
  },
  {
    name: 'values come back as written, for all characters of keys',
    async run({ log }) {
      const value = `1:2\u0000\n"\\:é漢😀\u2028${'x'.repeat(480)}`
      for (const key of ['k', '__proto__', 'é漢😀:/?#[]', 'k'.repeat(200), '1:2', 'note']) {
        await log.addNote(key, value, LONG_MS)
        equal(await log.readNotes([key]), [value], `the value of ${key}`)
        equal(await log.takeNote(key), value, `the value taken of ${key}`)
      }
    },
  },
  {
    name: 'an expired value is not returned, and does not hide or displace another',
    async run({ log, under }) {
      await log.addNote('brief', 'gone', BRIEF_MS)
      await log.addNote('mixed', 'long', LONG_MS)
      for (const value of numbered(1, 15)) await log.addNote('mixed', value, BRIEF_MS)
      equal(await log.readNotes(['brief', 'mixed']), ['gone', 'value-15'], 'the values before')
      await under.elapse(BRIEF_MS + SLACK_MS)
      equal(await log.readNotes(['brief', 'mixed']), [undefined, 'long'], 'the values after')
      equal(await log.takeNote('brief'), undefined, 'an expired value')
      await log.addNote('mixed', 'newest', LONG_MS)
      equal(await log.takeNote('mixed'), 'newest', 'a value added afterwards')
      equal(await log.takeNote('mixed'), 'long', 'a value from before')
      equal(await log.takeNote('mixed'), undefined, 'an expired value below it')
    },
  },
  {
    name: 'a value added later with a shorter time leaves the others their time',
    async run({ log, under }) {
      await log.addNote('key', 'long', LONG_MS)
      await log.addNote('key', 'brief', BRIEF_MS)
      equal(await log.takeNote('key'), 'brief', 'the newest value')
      await log.addNote('key', 'brief', BRIEF_MS)
      await under.elapse(BRIEF_MS + SLACK_MS)
      equal(await log.readNotes(['key']), ['long'], 'what is left')
    },
  },
  {
    name: 'each value is taken by one of many calls, from several processes',
    async run({ log, under }) {
      const other = (await under.another?.()) ?? log
      const values = numbered(1, 10)
      await Promise.all(
        values.map((value, at) => (at % 2 === 0 ? log : other).addNote('key', value, LONG_MS)),
      )
      const taken = await Promise.all(
        numbered(1, 20).map((_, at) => (at % 3 === 0 ? other : log).takeNote('key')),
      )
      const found = taken.filter((value) => value !== undefined)
      equal(found.toSorted(), values.toSorted(), 'the values')
    },
  },
  {
    name: 'other processes see a change at once',
    async run({ log, under }) {
      const other = await under.another?.()
      if (other === undefined) return
      await log.addNote('key', 'value', LONG_MS)
      equal(await other.readNotes(['key']), ['value'], 'the value')
      equal(await other.takeNote('key'), 'value', 'the value taken')
      equal(await log.readNotes(['key']), [undefined], 'what is left')
    },
  },
  {
    name: 'invalid keys, values, times and more than 64 keys are RECORD_INVALID',
    async run({ log }) {
      const keys = ['', 'white space', '{brace}', 'k'.repeat(201), '\ud800']
      for (const key of keys) {
        await rejects(log.addNote(key, 'value', LONG_MS), 'RECORD_INVALID', 'an added note')
        await rejects(log.readNotes(['key', key]), 'RECORD_INVALID', 'a read')
        await rejects(log.takeNote(key), 'RECORD_INVALID', 'a take')
      }
      for (const value of ['v'.repeat(501), 'half \ud800']) {
        await rejects(log.addNote('key', value, LONG_MS), 'RECORD_INVALID', 'an invalid value')
      }
      for (const ttlMs of [0, -1, 0.5, Number.NaN, Infinity]) {
        await rejects(log.addNote('key', 'value', ttlMs), 'RECORD_INVALID', `${ttlMs} ms`)
      }
      const many = numbered(1, 65)
      await rejects(log.readNotes(many), 'RECORD_INVALID', '65 keys')
      equal((await log.readNotes(many.slice(1))).length, 64, 'the number of values')
      equal(await log.readNotes(['key']), [undefined], 'what was stored')
    },
  },
  {
    name: 'notes of the same key of two tenants are apart',
    async run(given) {
      const beta = given.ofTenant('beta').log
      await given.log.addNote('key', 'own', LONG_MS)
      equal(await beta.readNotes(['key']), [undefined], "another tenant's read")
      equal(await beta.takeNote('key'), undefined, "another tenant's take")
      await beta.addNote('key', 'theirs', LONG_MS)
      equal(await given.log.takeNote('key'), 'own', 'the own value')
      equal(await beta.takeNote('key'), 'theirs', "the other tenant's value")
    },
  },
  {
    name: 'notes have nothing to do with turns, runs and threads of the same id',
    async run(given) {
      await given.createSealed('id', { threadId: 'id' })
      await given.log.addNote('id', 'value', LONG_MS)
      await given.log.deleteThread('id')
      equal(await given.log.readNotes(['id']), ['value'], 'the value')
      equal(await given.log.getTurn('id'), undefined, 'the turn')
    },
  },
  {
    name: 'added notes survive a restart, and taken ones do not return',
    async run({ log, under }) {
      if (under.reopen === undefined) return
      for (const value of ['kept', 'taken']) await log.addNote('key', value, LONG_MS)
      await log.addNote('brief', 'gone', BRIEF_MS)
      await log.takeNote('key')
      const again = await under.reopen()
      await under.elapse(BRIEF_MS + SLACK_MS)
      equal(await again.readNotes(['key', 'brief']), ['kept', undefined], 'the values')
      equal(await again.takeNote('key'), 'kept', 'the value taken')
      equal(await again.takeNote('key'), undefined, 'what is left')
    },
  },
]
