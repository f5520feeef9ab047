import type { Given } from './given.ts'
import { delta, message, numbered, responseDone } from './texts.ts'

/** The opened log, and another tenant's. */
export function both(given: Given): [Given, Given] {
  return [given, given.ofTenant('beta')]
}

/** Creates a turn with the same ids in every tenant, with different text. */
export async function writeText(given: Given, turnId: string, text: string): Promise<void> {
  const lease = await given.create(turnId, { threadId: 'thread', runId: 'run' })
  const events = [1, 2].map((seq) => delta('run', seq, `${text} ${seq}`))
  const records = numbered([...events, responseDone('run', 3)])
  await given.append(lease, 'events', records, { seal: true })
  await given.append(lease, 'processed', numbered([message(turnId, 'a', text)]))
}

/** Returns what a tenant sees of that turn. */
export async function stateOf(given: Given, turnId = 'turn') {
  const { log } = given
  return {
    turn: await log.getTurn(turnId),
    run: await log.getTurnOfRun('run'),
    turns: await log.listTurns('thread'),
    threads: await log.listThreads(),
    snapshot: await log.snapshot(turnId),
    events: await given.read(turnId, 'events'),
  }
}
