import type { TurnLog, TurnPageOptions } from '@turnstream/core/internal/log/turn-log'
import { equal, ok, oneSucceeds, rejects } from './assert.ts'
import { type Cases, type Given, LONG_MS, RETENTION_MS, SHORT_MS, withRetention } from './given.ts'
import { pagesOf, turnIdsOf } from './reading.ts'

const THREAD = { threadId: 'thread' }

/** Each turn of the thread, with its replacement if it has one. */
async function listed(log: TurnLog, options: TurnPageOptions = {}): Promise<string[]> {
  const { items } = await log.listTurns('thread', options)
  return items.map(({ turnId, replacedBy }) => [turnId, replacedBy].filter(Boolean).join('→'))
}

async function createAll(given: Given, turnIds: readonly string[]): Promise<void> {
  for (const turnId of turnIds) await given.createSealed(turnId, THREAD)
}

export const replacementCases: Cases = {
  'V14 a turn replaces another and all later ones': async (given, log) => {
    await createAll(given, ['a', 'b', 'c'])
    const lease = await given.create('d', { ...THREAD, replaces: 'b' })
    equal(await listed(log), ['a', 'd'], 'the turns while it runs')
    await given.seal(lease)
    equal(await listed(log), ['a', 'd'], 'the turns')
    equal(await listed(log, { first: 'newest' }), ['d', 'a'], 'the newest turns')
    const all = ['a', 'b→d', 'c→d', 'd']
    equal(await listed(log, { replaced: true }), all, 'all turns')
    equal(await listed(log, { replaced: true, first: 'newest' }), all.toReversed(), 'the newest')
    const [, b, , d] = (await log.listTurns('thread', { replaced: true })).items
    equal([d?.ordinal, d?.replaces, d?.replacedBy], [4, 'b', undefined], 'the new turn')
    const { replacedBy: _replacedBy, ...record } = b ?? {}
    equal(record, await log.getTurn('b'), 'the record of a replaced turn')
    ok((await given.read('b', 'events')).length > 0, 'a replaced turn has no events')
  },
  'V14 a replaced turn keeps its first replacement': async (given, log) => {
    await createAll(given, ['a', 'b'])
    await given.createSealed('c', { ...THREAD, replaces: 'b' })
    await given.createSealed('d', { ...THREAD, replaces: 'c' })
    await given.createSealed('e', { ...THREAD })
    await given.createSealed('f', { ...THREAD, replaces: 'a' })
    equal(await listed(log), ['f'], 'the turns')
    const all = ['a→f', 'b→c', 'c→d', 'd→f', 'e→f', 'f']
    equal(await listed(log, { replaced: true }), all, 'all turns')
  },
  'V14 pages leave out replaced turns, from either end': async (given, log) => {
    await createAll(given, ['a', 'b', 'c', 'd', 'e'])
    await given.createSealed('f', { ...THREAD, replaces: 'c' })
    await given.createSealed('g', THREAD)
    await given.createSealed('h', { ...THREAD, replaces: 'g' })
    for (const first of ['oldest', 'newest'] as const) {
      for (const replaced of [false, true]) {
        const all = replaced ? Array.from('abcdefgh') : ['a', 'b', 'f', 'h']
        for (let limit = 1; limit <= all.length + 1; limit++) {
          const options = { first, replaced }
          const pages = await pagesOf((p) => log.listTurns('thread', { ...p, ...options }), limit)
          const ids = pages.map(turnIdsOf)
          equal(ids.flat(), first === 'oldest' ? all : all.toReversed(), `pages of ${limit}`)
          equal(ids.length, Math.ceil(all.length / limit), `the number of pages of ${limit}`)
        }
      }
    }
  },
  'V14 what is not a turn of the thread cannot be replaced, and nothing changes': async (given) => {
    const { log } = given
    await createAll(given, ['a', 'b'])
    await given.createSealed('elsewhere', { threadId: 'other' })
    const refused = async (replaces: string, code: string, threadId = 'thread') => {
      const turn = given.create('new', { threadId, replaces })
      await rejects(turn, code, `replacing ${replaces} in ${threadId}`)
    }
    await refused('nobody', 'TURN_UNKNOWN')
    await refused('elsewhere', 'TURN_UNKNOWN')
    await refused('new', 'TURN_UNKNOWN')
    await refused('not an id', 'TURN_UNKNOWN')
    await refused('a', 'TURN_UNKNOWN', 'unknown-thread')
    equal(await log.getThread('unknown-thread'), undefined, 'a thread of a refused turn')
    equal(await log.getTurn('new'), undefined, 'a refused turn')
    equal(await listed(log), ['a', 'b'], 'the turns')
    const own = given.ofTenant('replacements-elsewhere')
    const foreign = own.create('new', { ...THREAD, replaces: 'a' })
    await rejects(foreign, 'TURN_UNKNOWN', 'the turn of another tenant')
    await given.createSealed('c', { ...THREAD, replaces: 'b' })
    await refused('b', 'TURN_REPLACED')
    equal(await listed(log), ['a', 'c'], 'the turns in the end')
  },
  'V14 a running turn is not replaced, nor one before it': async (given, log) => {
    await createAll(given, ['a'])
    const lease = await given.create('b', THREAD)
    for (const replaces of ['a', 'b', 'nobody']) {
      const turn = given.create('c', { ...THREAD, replaces })
      await rejects(turn, 'THREAD_BUSY', `replacing ${replaces}`)
    }
    equal(await listed(log), ['a', 'b'], 'the turns')
    await given.seal(lease)
    await given.createSealed('c', { ...THREAD, replaces: 'a' })
    equal(await listed(log), ['c'], 'the turns in the end')
  },
  'V14 of several turns that replace the same one, one is created': async (given) => {
    await createAll(given, ['a', 'b'])
    const places = [given, await given.elsewhere()] as const
    const creations = ['c', 'd', 'e', 'f', 'g', 'h'].map((turnId, at) =>
      places[at % 2 === 0 ? 0 : 1].create(turnId, { ...THREAD, replaces: 'b' }),
    )
    const { value: winner } = await oneSucceeds(creations, 'THREAD_BUSY')
    const { turnId } = winner
    for (const { log } of places) {
      equal(await listed(log), ['a', turnId], 'the turns')
      equal(await listed(log, { replaced: true }), ['a', `b→${turnId}`, turnId], 'all turns')
    }
    await given.seal(winner)
    await rejects(given.create('late', { ...THREAD, replaces: 'b' }), 'TURN_REPLACED', 'a loser')
  },
  'V14 a repeated creation is TURN_EXISTS and replaces nothing more': async (given) => {
    await createAll(given, ['a', 'b'])
    const turn = { ...THREAD, replaces: 'b', request: 'r' }
    await given.createSealed('c', turn)
    await rejects(given.create('c', turn), 'TURN_EXISTS', 'the same turn')
    await given.createSealed('d', THREAD)
    await rejects(given.create('c', turn), 'TURN_EXISTS', 'the same turn, later')
    equal(await listed(given.log), ['a', 'c', 'd'], 'the turns')
  },
  'V14 an orphan has replaced what it should, and ends as any other': async (given, log) => {
    await createAll(given, ['a', 'b'])
    await given.create('c', { ...THREAD, replaces: 'a' }, SHORT_MS)
    await given.under.elapse(SHORT_MS)
    await given.seal(await log.claim('c', 'reaper', LONG_MS))
    equal(await listed(log), ['c'], 'the turns')
    equal((await log.getTurn('c'))?.replaces, 'a', 'what it replaces')
  },
  'V14 deleting a turn brings back none that it replaced': async (given, log) => {
    await createAll(given, ['a', 'b', 'c'])
    await given.createSealed('d', { ...THREAD, replaces: 'b' })
    await log.deleteTurn('d')
    equal(await listed(log), ['a'], 'the turns')
    equal(await listed(log, { replaced: true }), ['a', 'b→d', 'c→d'], 'all turns')
    await log.deleteTurn('b')
    equal(await listed(log, { replaced: true }), ['a', 'c→d'], 'all turns without one')
    // Its id may be used again, for a turn that nobody replaced.
    await given.createSealed('b', THREAD)
    equal(await listed(log), ['a', 'b'], 'the turns in the end')
  },
  'V14 deleting a thread deletes its replaced turns': async (given, log) => {
    await createAll(given, ['a', 'b'])
    await given.createSealed('c', { ...THREAD, replaces: 'a' })
    equal(await log.deleteThread('thread'), true, 'the answer')
    for (const turnId of ['a', 'b', 'c']) equal(await log.getTurn(turnId), undefined, turnId)
    await createAll(given, ['a', 'b'])
    equal(await listed(log), ['a', 'b'], 'the turns of a new thread')
  },
  'V14 replaced turns expire as others do': withRetention(RETENTION_MS, async (given, log) => {
    await createAll(given, ['a'])
    const lease = await given.create('b', { ...THREAD, replaces: 'a' })
    await given.under.elapse(RETENTION_MS * 1.5)
    const [a] = (await log.listTurns('thread', { replaced: true })).items
    equal([a?.turnId, a?.replacedBy, a?.expired], ['a', 'b', true], 'the replaced turn')
    await given.seal(lease)
  }),
  'V14 a turn may be created as one that was replaced before': async (given, log) => {
    await given.createSealed('a', THREAD)
    await given.createSealed('b', { ...THREAD, replacedBy: 'c' })
    await given.createSealed('c', { ...THREAD, replaces: 'b' })
    await given.createSealed('d', { ...THREAD, replacedBy: 'deleted' })
    equal(await listed(log), ['a', 'c'], 'the turns')
    equal(await listed(log, { replaced: true }), ['a', 'b→c', 'c', 'd→deleted'], 'all turns')
    const bad = given.create('e', { ...THREAD, replacedBy: 'not an id' })
    await rejects(bad, 'RECORD_INVALID', 'an invalid id')
  },
  'V14 what was replaced stays so after a restart': async (given) => {
    await createAll(given, ['a', 'b'])
    await given.createSealed('c', { ...THREAD, replaces: 'b' })
    const { log } = await given.reopened()
    equal(await listed(log), ['a', 'c'], 'the turns')
    equal(await listed(log, { replaced: true }), ['a', 'b→c', 'c'], 'all turns')
  },
}
