import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { TurnstreamError } from '../../../core/src/index.ts'
import type { Lease, Orphan, TurnLog } from '../../../core/src/log/turn-log.ts'
import { MemoryLog } from '../../src/server.ts'
import { open } from './payloads.ts'
import { newRig, storyOf } from './rig.ts'

const ORPHAN_LEASE_MS = 5000

async function leaveBehind(log: TurnLog, turnIds: readonly string[]): Promise<Lease[]> {
  const turns = turnIds.map((turnId) => ({
    turnId,
    threadId: `of ${turnId}`.replace(' ', '-'),
    owner: 'the dead',
  }))
  return Promise.all(turns.map((turn) => log.create(turn, ORPHAN_LEASE_MS)))
}

async function sealedOf(log: TurnLog, turnIds: readonly string[]): Promise<boolean[]> {
  const turns = await Promise.all(turnIds.map((turnId) => log.getTurn(turnId)))
  return turns.map((turn) => turn?.sealed === true)
}

describe('D5 orphans', () => {
  test('are ended before the start resolves, however many they are', async () => {
    const rig = newRig()
    const ids = Array.from({ length: 250 }, (_, index) => `orphan-${index}`)
    await leaveBehind(rig.log, ids)
    await rig.clock.advance(ORPHAN_LEASE_MS)
    await rig.runner.start()
    expect((await sealedOf(rig.log, ids)).every(Boolean)).toBe(true)
    expect(await storyOf(rig.log, 'orphan-7')).toEqual(['end PRODUCER_LOST'])
    await rig.runner.shutdown(0)
  })

  test('are ended within two seconds after their lease expired', async () => {
    const rig = newRig()
    await rig.runner.start()
    await leaveBehind(rig.log, ['orphan'])
    await rig.clock.advance(ORPHAN_LEASE_MS - 1)
    expect(await sealedOf(rig.log, ['orphan'])).toEqual([false])
    await rig.clock.advance(2000)
    expect(await sealedOf(rig.log, ['orphan'])).toEqual([true])
    await rig.runner.shutdown(0)
  })

  test('that cannot be ended now are reported, hide no others, and are retried', async () => {
    const clock = fakeClock()
    const stuck = Array.from({ length: 120 }, (_, index) => `stuck-${index}`)
    const log = new (class extends MemoryLog {
      isStuck = true
      override claim(...args: Parameters<MemoryLog['claim']>): Promise<Lease> {
        if (!this.isStuck || !args[0].startsWith('stuck')) return super.claim(...args)
        return Promise.reject(new TurnstreamError('STORE_FAILED', args[0]))
      }
    })({ clock })
    const rig = newRig({ log, clock })
    const others = ['a', 'b', 'c']
    await leaveBehind(log, ['first', ...stuck, ...others])
    await clock.advance(ORPHAN_LEASE_MS)
    await rig.runner.start()
    expect(await sealedOf(log, ['first', ...others])).toEqual([true, true, true, true])
    expect(rig.errors).toContain('STORE_FAILED')
    log.isStuck = false
    await clock.advance(1000)
    expect((await sealedOf(log, stuck)).every(Boolean)).toBe(true)
    await rig.runner.shutdown(0)
  })

  test('are searched again after the store was unavailable, also at the start', async () => {
    const clock = fakeClock()
    const log = new (class extends MemoryLog {
      isAway = true
      override orphans(limit: number): Promise<Orphan[]> {
        if (!this.isAway) return super.orphans(limit)
        return Promise.reject(new TurnstreamError('STORE_UNAVAILABLE', 'away'))
      }
    })({ clock })
    const rig = newRig({ log, clock })
    await leaveBehind(log, ['orphan'])
    await clock.advance(ORPHAN_LEASE_MS)
    await rig.runner.start()
    expect(rig.errors).toEqual(['STORE_UNAVAILABLE'])
    log.isAway = false
    await clock.advance(1000)
    expect(await sealedOf(log, ['orphan'])).toEqual([true])
    await rig.runner.shutdown(0)
  })

  test('are searched by one pass at a time', async () => {
    const clock = fakeClock()
    let passes = 0
    let answer = () => {}
    const log = new (class extends MemoryLog {
      override orphans(): Promise<Orphan[]> {
        passes += 1
        return new Promise((resolve) => {
          answer = () => resolve([])
        })
      }
    })({ clock })
    const { runner } = newRig({ log, clock })
    const started = Promise.all([runner.start(), runner.start()])
    await clock.advance(10_000)
    expect(passes).toBe(1)
    answer()
    await started
    await clock.advance(999)
    expect(passes).toBe(1)
    await clock.advance(1)
    expect(passes).toBe(2)
    const shutdown = runner.shutdown(0)
    answer()
    await shutdown
    await clock.advance(10_000)
    expect(passes).toBe(2)
    await runner.start()
    expect(clock.pending()).toBe(0)
  })

  test('are not the turns of its own process that run, though those of other tenants are', async () => {
    const rig = newRig({ rounds: [({ say }) => say(open('a'))] })
    await rig.submit()
    await rig.provider.called(1)
    const other = (rig.log as MemoryLog).ofTenant('other')
    await leaveBehind(other, ['r'])
    rig.log.orphans = async () => [
      { tenant: 'default', turnId: 'r' },
      { tenant: 'other', turnId: 'r' },
    ]
    let claims = 0
    const claim = rig.log.claim.bind(rig.log)
    rig.log.claim = (...args) => {
      claims += 1
      return claim(...args)
    }
    await rig.clock.advance(ORPHAN_LEASE_MS)
    await rig.runner.start()
    expect(claims).toBe(0)
    expect(await sealedOf(other, ['r'])).toEqual([true])
    const shutdown = rig.runner.shutdown(0)
    await rig.clock.advance(0)
    await shutdown
  })

  test('of this process, whose lease it could not keep, are ended by it too', async () => {
    const clock = fakeClock()
    const log = new MemoryLog({ clock })
    log.renew = () => Promise.reject(new TurnstreamError('STORE_FAILED', 'renew'))
    const rig = newRig({ log, clock })
    await rig.runner.start()
    await rig.submit()
    await clock.advance(10_000)
    expect(await storyOf(log)).toEqual(['end PRODUCER_LOST'])
    expect(rig.errors).toEqual(['LEASE_LOST'])
    await rig.runner.shutdown(0)
  })
})
