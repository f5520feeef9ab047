import { LOG_NAMES, type TurnLog } from '@turnstream/core/internal/log/turn-log'
import { codeOf, equal, ok } from './assert.ts'
import { type Cases, type Given, LONG_MS, START } from './given.ts'
import { readAll, threadIdsOf } from './reading.ts'
import { deltas } from './texts.ts'

/** Every call that takes a turn, run or thread id, as text: its result or its error. */
async function answersFor(log: TurnLog, id: string, signal: AbortSignal): Promise<string[]> {
  const calls: Record<string, () => Promise<unknown>> = {
    getTurn: () => log.getTurn(id),
    getTurnOfRun: () => log.getTurnOfRun(id),
    getThread: () => log.getThread(id),
    listTurns: () => log.listTurns(id),
    newest: () => log.listTurns(id, { first: 'newest', cursor: '9' }),
    events: () => readAll(log.tail(id, 'events', START, signal)),
    processed: () => readAll(log.tail(id, 'processed', '1-1', signal)),
    snapshot: () => log.snapshot(id),
    requestCancel: () => log.requestCancel(id, 'user'),
    claim: () => log.claim(id, 'heir', LONG_MS),
    deleteTurn: () => log.deleteTurn(id),
    deleteThread: () => log.deleteThread(id),
  }
  // Concurrently: calls for unknown ids change nothing.
  const answers = Object.entries(calls).map(async ([name, call]) => {
    const answer = await call().then(
      (value) => JSON.stringify(value) ?? 'nothing',
      (error: unknown) => `${codeOf(error)} ${error instanceof Error ? error.message : ''}`,
    )
    return `${name}: ${answer.replaceAll(id, 'ID')}`
  })
  return Promise.all(answers)
}

const UNKNOWN = 'q-absent'

/** Data that other tenants try to find: an id used for a turn, a run and a thread, open and ended. */
async function fill(given: Given, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const lease = await given.create(id, { threadId: id })
    await given.append(lease, 'events', deltas(id, 1, 2))
    await given.seal({ ...lease, next: { events: 3, processed: 1 } })
  }
  await given.create('open', { threadId: 'open' })
}

async function contents({ log, signal }: Given, ids: readonly string[]): Promise<unknown[]> {
  const all: unknown[] = [await log.listThreads(), await log.getTurn('open')]
  for (const id of ids) {
    all.push(await log.getTurnOfRun(id), await log.listTurns(id), await log.snapshot(id))
    for (const name of LOG_NAMES) all.push(await readAll(log.tail(id, name, START, signal)))
  }
  return all
}

/** Long enough that a store may encode it differently. */
const LONG = 'x'.repeat(80)

/** Texts that a store might take for another tenant's key. */
function disguises(tenant: string, id: string): string[] {
  const joints = [' ', ':', '/', '\u0000', '\u0001', '\u001b', '\n', '\u0004\u0000', '\ud800']
  const joined = joints.flatMap((joint) => [
    `${tenant}${joint}${id}`,
    `${joint}${tenant}${joint}${id}`,
  ])
  return [
    ...joined,
    `default ${tenant} ${id}`,
    ` ${id}`,
    `${id} `,
    `${tenant}:turn:{${id}}`,
    `}${tenant}:turn:{${id}`,
    `${id}\u0000\u0010`,
    '*',
    '\uffff',
    `${tenant} ${id}${LONG.repeat(100)}`,
  ]
}

export const tenantSecretCases: Cases = {
  "L13 the response for another tenant's id equals that for an unknown id": async (given) => {
    const ids = ['q-own', LONG]
    await fill(given.ofTenant('beta'), ids)
    await fill(given.ofTenant('gamma'), ids)
    const before = await contents(given.ofTenant('beta'), ids)
    const asking = [given.ofTenant('default'), given.ofTenant('delta')]
    for (const { log, signal } of asking) {
      const expected = await answersFor(log, UNKNOWN, signal)
      for (const id of [...ids, 'open']) {
        equal(await answersFor(log, id, signal), expected, `the answers for ${id}`)
      }
      equal(await log.listThreads(), { items: [] }, 'the threads')
      equal(await log.expired(10), [], 'the turns whose lease ran out')
    }
    equal(await contents(given.ofTenant('beta'), ids), before, 'what the other has afterwards')
  },
  "L13 no crafted id reaches another tenant's data": async (given) => {
    const ids = ['q-own', LONG]
    const tenants = ['default', 'beta', 'be']
    for (const tenant of tenants) await fill(given.ofTenant(tenant), ids)
    const before = []
    for (const tenant of tenants) before.push(await contents(given.ofTenant(tenant), ids))
    const asking = ['default', 'be', 'beta', 'delta'].map((tenant) => given.ofTenant(tenant))
    for (const { log, signal } of asking) {
      const expected = await answersFor(log, UNKNOWN, signal)
      const texts = ['default', 'beta'].flatMap((tenant) =>
        ids.flatMap((id) => disguises(tenant, id)),
      )
      const answers = await Promise.all(texts.map((text) => answersFor(log, text, signal)))
      for (const [at, text] of texts.entries()) {
        equal(answers[at], expected, `the answers for ${JSON.stringify(text.slice(0, 120))}`)
      }
      equal(await log.getTurn(''), undefined, 'the turn without a name')
      equal(await log.listTurns(''), { items: [] }, 'the turns of a thread without a name')
    }
    for (const [at, tenant] of tenants.entries()) {
      const after = await contents(given.ofTenant(tenant), ids)
      equal(after, before[at], `what ${tenant} has afterwards`)
    }
  },
  "L13 no listing cursor reaches another tenant's threads": async (given) => {
    const own = given.ofTenant('beta')
    await own.log.putThread({ threadId: 'm' })
    const { updatedAt = 0 } = (await own.log.getThread('m')) ?? {}
    for (const tenant of ['default', 'alpha', 'betb', 'gamma']) {
      const { log } = given.ofTenant(tenant)
      for (const threadId of ['a', 'm', 'z']) await log.putThread({ threadId })
    }
    const late = updatedAt + 1_000_000
    const places = ['\u0000', 'gamma', '\uffff', 'm', 'gamma z', `z\u0000${LONG}`, LONG.repeat(90)]
    for (const place of places) {
      for (const time of [0, 1, updatedAt, late, 999_999_999_999_999]) {
        const { items } = await own.log.listThreads({ cursor: `${time}:${place}` })
        const found = threadIdsOf(items)
        const what = `the threads after ${time}:${JSON.stringify(place.slice(0, 40))}`
        ok(found.length <= 1, `${what} are ${found.join(' ')}`)
        if (time >= late) equal(found, ['m'], what)
      }
    }
  },
}
