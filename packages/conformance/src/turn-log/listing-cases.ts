import type { Page, PageOptions, ThreadRecord } from '@turnstream/core/internal/log/turn-log'
import { equal, ok, oneSucceeds, rejects } from './assert.ts'
import { type Cases, type Given } from './given.ts'
import { pagesOf, threadIdsOf, turnIdsOf } from './reading.ts'

function inPages<T>(all: readonly T[], limit: number): T[][] {
  const pages: T[][] = []
  for (let at = 0; at < all.length; at += limit) pages.push(all.slice(at, at + limit))
  return pages
}

/** Puts threads one after another, so that each is newer than the previous one. */
async function putInOrder({ log, under }: Given, threadIds: readonly string[]): Promise<void> {
  for (const threadId of threadIds) {
    await log.putThread({ threadId })
    await under.elapse(3)
  }
}

export const listingCases: Cases = {
  'L1 turns of a thread are listed in creation order, from either end': async (given) => {
    const turnIds = ['t-3', 't-1', 't-2', 't-10', 't-0']
    for (const turnId of turnIds) await given.createSealed(turnId, { threadId: 'thread' })
    await given.createSealed('elsewhere')
    for (const first of ['oldest', 'newest'] as const) {
      const expected = first === 'oldest' ? turnIds : turnIds.toReversed()
      for (let limit = 1; limit <= turnIds.length + 1; limit++) {
        const list = (page: PageOptions) => given.log.listTurns('thread', { ...page, first })
        const pages = await pagesOf(list, limit)
        const listed = pages.map(turnIdsOf)
        equal(listed, inPages(expected, limit), `pages of ${limit}, ${first} first`)
      }
    }
    const { items } = await given.log.listTurns('thread')
    equal(turnIdsOf(items), turnIds, 'all turns')
    for (const [at, { ordinal }] of items.entries()) equal(ordinal, at + 1, 'an ordinal')
    for (const item of items) equal(item, await given.log.getTurn(item.turnId), 'a listed record')
  },
  'L1 creating or deleting a turn between two pages shifts no other turn': async (given) => {
    const thread = { threadId: 'thread' }
    for (const turnId of ['a', 'b', 'c', 'd']) await given.createSealed(turnId, thread)
    const oldest = await given.log.listTurns('thread', { limit: 2 })
    const newest = await given.log.listTurns('thread', { limit: 2, first: 'newest' })
    await given.log.deleteTurn('b')
    await given.log.deleteTurn('d')
    await given.createSealed('e', thread)
    const next = async (page: Page<{ turnId: string }>, first: 'oldest' | 'newest') => {
      const options = { limit: 5, first, cursor: page.nextCursor ?? '' }
      return turnIdsOf((await given.log.listTurns('thread', options)).items)
    }
    equal(await next(oldest, 'oldest'), ['c', 'e'], 'the next page')
    equal(await next(newest, 'newest'), ['a'], 'the next page from the other end')
    equal((await given.log.getTurn('e'))?.ordinal, 5, 'the ordinal of the newest')
  },
  'L1 the most recently changed thread is listed first': async (given, log) => {
    await putInOrder(given, ['b', 'a', 'd'])
    await given.create('turn', { threadId: 'c' })
    await given.under.elapse(3)
    const listed = async () => threadIdsOf((await log.listThreads()).items)
    equal(await listed(), ['c', 'd', 'a', 'b'], 'the threads')
    await given.create('turn-2', { threadId: 'a' })
    await given.under.elapse(3)
    equal(await listed(), ['a', 'c', 'd', 'b'], 'the threads after a turn')
    await log.putThread({ threadId: 'b' })
    const expected = ['b', 'a', 'c', 'd']
    equal(await listed(), expected, 'the threads after a put')
    for (let limit = 1; limit <= 5; limit++) {
      const pages = await pagesOf((options) => log.listThreads(options), limit)
      const ids = pages.map(threadIdsOf)
      equal(ids, inPages(expected, limit), `pages of ${limit}`)
    }
  },
  'L1 putting a thread again replaces its title and metadata': async ({ log, under }) => {
    const metadata = { tags: ['ä', { deep: [1, null, true] }] }
    const made = await log.putThread({ threadId: 'thread', title: 'Títle', metadata })
    equal(made, { ...made, threadId: 'thread', title: 'Títle', metadata }, 'the thread')
    equal(made.updatedAt, made.createdAt, 'when it was updated')
    equal(await log.getThread('thread'), made, 'the thread that was kept')
    await under.elapse(3)
    const again = await log.putThread({ threadId: 'thread', title: 'Other' })
    const { creation, createdAt } = made
    ok(again.updatedAt > createdAt, 'the time of the update did not move')
    const { updatedAt } = again
    const version = made.version + 1
    const other = { threadId: 'thread', title: 'Other', creation, version, createdAt, updatedAt }
    equal(again, other, 'the new thread')
    equal(await log.getThread('thread'), again, 'the thread that was kept')
  },
  'L1 a turn that begins a thread gives it a title, and a later one does not': async (given) => {
    const { log } = given
    const titleOf = async (threadId: string) => (await log.getThread(threadId))?.title
    await given.createSealed('first', { threadId: 'new', threadTitle: 'Títle' })
    equal(await titleOf('new'), 'Títle', 'the title of a new thread')
    await given.createSealed('second', { threadId: 'new', threadTitle: 'Later' })
    equal(await titleOf('new'), 'Títle', 'the title after another turn')
    await log.putThread({ threadId: 'new' })
    equal(await titleOf('new'), undefined, 'the title that was removed')
    await log.putThread({ threadId: 'put' })
    await given.createSealed('third', { threadId: 'put', threadTitle: 'Later' })
    equal(await titleOf('put'), undefined, 'the title of a thread that was put before')
    const titles = (await log.listThreads()).items.map(({ title }) => title)
    equal(titles, [undefined, undefined], 'the listed titles')
  },
  'L1 a conditional put fails after another put or a deletion': async (given, log) => {
    const put = (title: string, replaces: ThreadRecord | null) =>
      log.putThread({ threadId: 'thread', title }, replaces)
    const first = await put('first', null)
    await rejects(put('again', null), 'THREAD_CHANGED', 'a thread that exists')
    const second = await put('second', first)
    await rejects(put('third', first), 'THREAD_CHANGED', 'a thread that was put since')
    await given.create('turn', { threadId: 'thread' })
    await log.deleteTurn('turn')
    const third = await put('a turn is no change', second)
    await log.deleteThread('thread')
    await rejects(put('fourth', third), 'THREAD_CHANGED', 'a thread that is gone')
    for (const title of ['1', '2', '3']) await log.putThread({ threadId: 'thread', title })
    const anew = await log.getThread('thread')
    equal(anew?.version, third.version, 'the version of a recreated thread')
    await rejects(put('fifth', third), 'THREAD_CHANGED', 'a recreated thread')
    equal(await log.getThread('thread'), anew, 'the thread after refusals')
  },
  'L1 one of several concurrent conditional puts succeeds': async ({ log }) => {
    const found = await log.putThread({ threadId: 'thread' })
    const titles = Array.from({ length: 8 }, (_, at) => `title ${at}`)
    const puts = titles.map((title) => log.putThread({ threadId: 'thread', title }, found))
    const { value } = await oneSucceeds(puts, 'THREAD_CHANGED')
    equal(await log.getThread('thread'), value, 'the put that was done')
  },
  "L1 a new turn keeps the thread's title and metadata and updates its time": async (given) => {
    const thread = { threadId: 'thread', title: 'T', metadata: { a: 1 } }
    const made = await given.log.putThread(thread)
    await given.under.elapse(3)
    await given.create('turn', { threadId: 'thread' })
    const { updatedAt = 0, ...rest } = (await given.log.getThread('thread')) ?? {}
    const { creation, version, createdAt } = made
    equal(rest, { ...thread, creation, version, createdAt }, 'the thread')
    ok(updatedAt > made.updatedAt, 'the time of the update did not move')
  },
  'L1 a page holds 50 items by default and at most 200': async ({ log }) => {
    const threadIds = Array.from({ length: 201 }, (_, index) => `thread-${index}`)
    await Promise.all(threadIds.map((threadId) => log.putThread({ threadId })))
    for (const limit of [undefined, 7, 200, 1000]) {
      const page = await log.listThreads(limit === undefined ? {} : { limit })
      equal(page.items.length, Math.min(limit ?? 50, 200), `a page with a limit of ${limit}`)
      ok(page.nextCursor !== undefined, 'there is no next page')
    }
    const pages = await pagesOf((options) => log.listThreads(options), 67)
    const listed = threadIdsOf(pages.flat())
    equal(listed.toSorted(), threadIds.toSorted(), 'all threads')
  },
  'L1 an invalid limit or cursor is rejected': async (given, log) => {
    await given.createSealed('turn', { threadId: 'thread' })
    for (const limit of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      const what = `a limit of ${limit}`
      await rejects(log.listTurns('thread', { limit }), 'OPTION_INVALID', what)
      await rejects(log.listThreads({ limit }), 'OPTION_INVALID', what)
    }
    for (const cursor of ['', 'x', '-', '?', '-1']) {
      const what = `the cursor "${cursor}"`
      await rejects(log.listTurns('thread', { cursor }), 'CURSOR_INVALID', what)
      await rejects(log.listThreads({ cursor }), 'CURSOR_INVALID', what)
    }
  },
}
