import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { appendTo } from './append.ts'
import { type Given, START } from './given.ts'
import { readAll } from './reading.ts'
import { delta, message, responseDone } from './texts.ts'

/** The opened log, and another tenant's. */
export function both(given: Given): [Given, Given] {
  return [given, given.ofTenant('beta')]
}

/** Creates a turn with the same ids in every tenant, with different text. */
export async function writeText(given: Given, turnId: string, text: string): Promise<void> {
  const lease = await given.create(turnId, { threadId: 'thread', runId: 'run' })
  const events = [1, 2].map((seq) => ({ seq, data: delta('run', seq, `${text} ${seq}`) }))
  const records = [...events, { seq: 3, data: responseDone('run', 3) }]
  await appendTo(given.log, lease, 'events', records, { seal: true })
  await appendTo(given.log, lease, 'processed', [{ seq: 1, data: message(turnId, 'a', text) }])
}

/** Returns what a tenant sees of that turn. */
export async function stateOf(log: TurnLog, { signal }: Given) {
  return {
    turn: await log.getTurn('turn'),
    run: await log.getTurnOfRun('run'),
    turns: await log.listTurns('thread'),
    threads: await log.listThreads(),
    snapshot: await log.snapshot('turn'),
    events: await readAll(log.tail('turn', 'events', START, signal)),
  }
}
