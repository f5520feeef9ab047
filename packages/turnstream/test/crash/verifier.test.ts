import { describe, expect, test } from 'vitest'
import { Ledger } from '../../../../scripts/crash/ledger.mjs'
import { endOrphan, MemoryLog } from '../../../../scripts/crash/library.mjs'
import { planTurn } from '../../../../scripts/crash/plan.mjs'
import { Random } from '../../../../scripts/crash/random.mjs'
import { Verifier } from '../../../../scripts/crash/verifier.mjs'
import { streamEventFault } from '../../../core/src/protocol/stream-event-guard.ts'
import { leaveTurns, SEED, THREADS } from './left-turns.ts'

const everyone = () => true

function verifierOf(ledger: Ledger, options = {}): Verifier {
  const verifier = new Verifier({ seed: SEED, random: new Random(SEED), ...options })
  verifier.ledger = ledger
  return verifier
}

describe('the plan of a crash run', () => {
  const plans = Array.from({ length: 400 }, (_, number) => planTurn(SEED, number))

  test('depends only on seed and number', () => {
    expect(planTurn(SEED, 7)).toEqual(plans[7])
    expect(planTurn('another', 7).events).not.toEqual(plans[7]?.events)
  })

  test('consists of valid events, the last of them terminal', () => {
    const events = plans.flatMap((plan) => plan.events.map((text) => JSON.parse(text)))
    expect(events.map(streamEventFault).filter(Boolean)).toEqual([])
    const own = plans.filter(({ tenant }) => tenant === 'default').flatMap((plan) => plan.events)
    const ids = new Set(own.map((text) => JSON.parse(text).event_id))
    expect(ids.size).toBe(own.length)
  })

  test('has two tenants with the same ids and different events', () => {
    const names = (tenant: string) =>
      plans.flatMap((plan) => (plan.tenant === tenant ? `${plan.threadId} ${plan.turnId}` : []))
    expect(names('acme')).toEqual(names('default'))
    expect(new Set(names('acme')).size).toBe(plans.length / 2)
    expect(plans[4]).toMatchObject({ tenant: 'acme', turnId: 'turn-0' })
    expect(plans[4]?.events).not.toEqual(plans[0]?.events)
  })

  test('has turns of every outcome, short and longer than two chunks', () => {
    expect(new Set(plans.map(({ fate }) => fate))).toEqual(new Set(['finish', 'abandon', 'stall']))
    const lengths = plans.map(({ events }) => events.length)
    expect(Math.min(...lengths)).toBe(2)
    expect(Math.max(...lengths)).toBeGreaterThan(512)
  })
})

describe('the verifier', () => {
  test('finds nothing when nothing was lost, and ends open turns', async () => {
    const log = new MemoryLog()
    const ledger = new Ledger()
    await leaveTurns(log, ledger)
    const verifier = verifierOf(ledger)
    await verifier.glance(log)
    const sealed = verifier.verified.size
    await verifier.end(log, everyone)
    await verifier.check(log, everyone)
    expect(sealed).toBeGreaterThan(THREADS / 2)
    expect(verifier.verified.size).toBe(ledger.turns.size)
    expect(ledger.endings.size).toBe(ledger.turns.size - sealed)
    expect(ledger.endings.size).toBeGreaterThan(5)
    expect(verifier.found).toBeGreaterThanOrEqual(ledger.acknowledged)
    await verifier.again(log, 10)
  })

  test('notices a missing acknowledged turn', async () => {
    const log = new MemoryLog()
    const ledger = new Ledger()
    await leaveTurns(log, ledger)
    await log.ofTenant('acme').deleteTurn('turn-0')
    const ended = verifierOf(ledger).end(log, everyone)
    await expect(ended).rejects.toThrow('acme/turn-0: the turn is gone')
  })

  test.each([
    {
      what: 'two claimers end an orphan',
      end: async (...args: Parameters<typeof endOrphan>) => {
        await endOrphan(...args)
        return 'ended' as const
      },
      message: /2 claimers have ended it/,
    },
    {
      what: 'nobody ends an orphan',
      end: () => Promise.resolve('held' as const),
      message: /nobody could end it/,
    },
  ])('notices that $what', async ({ end, message }) => {
    const log = new MemoryLog()
    const ledger = new Ledger()
    await leaveTurns(log, ledger)
    const verifier = verifierOf(ledger, { end, patienceMs: 100 })
    await expect(verifier.end(log, everyone)).rejects.toThrow(message)
  })

  test('notices a turn that counts as an orphan after its end', async () => {
    const log = new MemoryLog()
    const ledger = new Ledger()
    await leaveTurns(log, ledger)
    await verifierOf(ledger).end(log, everyone)
    log.orphans = () => Promise.resolve([{ tenant: 'acme', turnId: 'turn-0' }])
    await expect(verifierOf(ledger).end(log, everyone)).rejects.toThrow('acme/turn-0 is listed')
  })

  test('passes on failures reported by a process', () => {
    const verifier = verifierOf(new Ledger())
    verifier.ledger.take(['failed', 'LOG_SEQUENCE_GAP'])
    expect(() => verifier.read([])).toThrow('LOG_SEQUENCE_GAP')
  })
})
