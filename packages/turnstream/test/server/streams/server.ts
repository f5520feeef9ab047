import { onTestFinished } from 'vitest'
import { appendTo, type TextRecord } from '../../../../conformance/src/turn-log/append.ts'
import { responseDone, turnComplete } from '../../../../conformance/src/turn-log/texts.ts'
import type { Lease, LogName, TurnLog } from '../../../../core/src/log/turn-log.ts'
import {
  type ConfiguredProvider,
  createGateway,
  type Gateway,
  type GatewayOptions,
  listen,
  MemoryLog,
  openEmbeddedLog,
  Providers,
} from '../../../src/server.ts'
import { folderOfTest } from '../../log/embedded/support.ts'
import { UNLIMITED } from '../unlimited.ts'
import { recordsOf } from './turns.ts'

const LEASE_MS = 600_000

/** The stores that streams are tested with. */
export const STORES = ['memory', 'embedded'] as const
export type Store = (typeof STORES)[number]

/** A log that goes with the test. */
export async function openLog(store: Store = 'memory'): Promise<TurnLog> {
  if (store === 'memory') return new MemoryLog()
  const log = await openEmbeddedLog({
    directory: folderOfTest(),
    sync: 'system',
    commitIntervalMs: 0,
  })
  onTestFinished(() => log.close())
  return log
}

/** Nobody asks it: the turns are written by the tests. */
export const NOBODY: ConfiguredProvider = {
  provider: {
    id: 'nobody',
    stream: () => {
      throw new Error('no turn is run here')
    },
  },
  models: [],
  defaultModel: 'none',
}

export interface Served {
  readonly port: number
  readonly gateway: Gateway
  readonly errors: unknown[]
  readonly close: () => Promise<void>
}

/** A gateway without its port. */
export function gatewayOn(log: TurnLog, options: Partial<GatewayOptions> = {}): Gateway {
  const providers = new Providers([NOBODY])
  return createGateway({ log, providers, instance: 'test', limits: UNLIMITED, ...options })
}

/** Serves a log over real HTTP until the end of the test. */
export async function serve(log: TurnLog, options: Partial<GatewayOptions> = {}): Promise<Served> {
  const errors: unknown[] = []
  const gateway = gatewayOn(log, { onError: (error) => errors.push(error), ...options })
  const listening = await listen(gateway, { port: 0 })
  const close = () => listening.close()
  onTestFinished(close)
  return { port: Number(new URL(listening.url).port), gateway, errors, close }
}

export async function createTurn(log: TurnLog, turnId: string, threadId = 'thread') {
  return await log.create({ turnId, threadId, owner: 'test' }, LEASE_MS)
}

/** A turn whose log holds these records and is sealed. The other log only has its end. */
export async function createSealed(
  log: TurnLog,
  turnId: string,
  name: LogName,
  records: readonly TextRecord[],
): Promise<Lease> {
  const lease = await createTurn(log, turnId, `thread-of-${turnId}`)
  const other = name === 'events' ? turnComplete(turnId) : responseDone(turnId, 1)
  await appendTo(log, lease, name, records, { seal: true })
  const rest = name === 'events' ? 'processed' : 'events'
  await appendTo(log, lease, rest, [{ seq: 1, data: other }], { seal: true })
  return lease
}

/** The turn `turn`, both of its logs to their ends. */
export async function finishedTurn<T extends TurnLog>(log: T): Promise<T> {
  const lease = await createTurn(log, 'turn')
  await appendTo(log, lease, 'events', recordsOf('turn', 'events'), { seal: true })
  await appendTo(log, lease, 'processed', recordsOf('turn', 'processed'), { seal: true })
  return log
}
