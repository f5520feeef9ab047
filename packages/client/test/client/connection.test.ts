import { describe, expect, test } from 'vitest'
import { read } from '../../../../test/repository/sources.ts'
import { section, tableRows } from '../../../../test/repository/tables.ts'
import {
  type Connection,
  describeConnection,
  type EventData,
  IDLE,
  type LinkEvent,
  nextTickAt,
  type Phase,
  transition,
} from '../../src/client/connection.ts'
import { ClientError } from '../../src/index.ts'

const CAUSE = new ClientError('cut')
const REFUSAL = new ClientError('no', { status: 400, code: 'REQUEST_INVALID' })
const NOW = 100_000

const FACTS: Record<LinkEvent, EventData> = {
  open: {},
  close: {},
  opened: {},
  heard: {},
  lost: { cause: CAUSE },
  refused: { cause: REFUSAL },
  gone: { cause: REFUSAL },
  over: {},
  tick: {},
  hidden: {},
  wake: {},
}

const REQUEST = new AbortController()

/** A connection in each phase, one second after the last byte, and due if it waits. */
const STATES: Record<Phase, Connection> = {
  idle: IDLE,
  connecting: { ...IDLE, phase: 'connecting', request: REQUEST, dueAt: NOW - 1000 + 30_000 },
  live: {
    ...{ ...IDLE, phase: 'live', request: REQUEST, hasOpened: true },
    ...{ since: NOW - 1000, dueAt: NOW - 1000 + 30_000 },
  },
  waiting: {
    ...{ ...IDLE, phase: 'waiting', hasOpened: true, cause: CAUSE, delayMs: 500 },
    ...{ since: NOW - 1000, dueAt: NOW, overdueAt: NOW + 2000 },
  },
  ended: { ...IDLE, phase: 'ended' },
  failed: { ...IDLE, phase: 'failed', cause: REFUSAL },
}

/** `same` is the same phase with other facts. */
const EXPECTED: Record<Phase, Record<LinkEvent, Phase | 'ignored' | 'same'>> = {
  idle: {
    ...{ open: 'connecting', close: 'ignored', opened: 'ignored', heard: 'ignored' },
    ...{ lost: 'ignored', refused: 'ignored', gone: 'ignored', over: 'ignored' },
    ...{ tick: 'ignored', hidden: 'ignored', wake: 'ignored' },
  },
  connecting: {
    ...{ open: 'ignored', close: 'idle', opened: 'live', heard: 'same' },
    ...{ lost: 'waiting', refused: 'failed', gone: 'failed', over: 'ended' },
    ...{ tick: 'ignored', hidden: 'waiting', wake: 'ignored' },
  },
  live: {
    ...{ open: 'ignored', close: 'idle', opened: 'ignored', heard: 'same' },
    ...{ lost: 'waiting', refused: 'failed', gone: 'ended', over: 'ended' },
    ...{ tick: 'ignored', hidden: 'waiting', wake: 'ignored' },
  },
  waiting: {
    ...{ open: 'connecting', close: 'idle', opened: 'ignored', heard: 'ignored' },
    ...{ lost: 'ignored', refused: 'failed', gone: 'ignored', over: 'ignored' },
    ...{ tick: 'connecting', hidden: 'ignored', wake: 'connecting' },
  },
  ended: {
    ...{ open: 'ignored', close: 'ignored', opened: 'ignored', heard: 'ignored' },
    ...{ lost: 'ignored', refused: 'ignored', gone: 'ignored', over: 'ignored' },
    ...{ tick: 'ignored', hidden: 'ignored', wake: 'ignored' },
  },
  failed: {
    ...{ open: 'connecting', close: 'ignored', opened: 'ignored', heard: 'ignored' },
    ...{ lost: 'ignored', refused: 'ignored', gone: 'ignored', over: 'ignored' },
    ...{ tick: 'ignored', hidden: 'ignored', wake: 'ignored' },
  },
}

function after(
  at: Connection,
  kind: LinkEvent,
  now = NOW,
  random = 1,
  data = FACTS[kind],
): Connection {
  return transition(at, kind, { ...data, now, random, isHidden: false })
}

const tickAt = (at: Connection, { now = NOW, isHidden = false } = {}) =>
  nextTickAt(at, { now, random: 1, isHidden })

describe.each(Object.keys(STATES) as Phase[])('a connection that is %s', (phase) => {
  test.each(Object.entries(EXPECTED[phase]) as [LinkEvent, string][])(
    '%s: %s',
    (kind, expected) => {
      const before = STATES[phase]
      const next = after(before, kind)
      if (expected === 'ignored') expect(next).toBe(before)
      else expect(next.phase).toBe(expected === 'same' ? phase : expected)
      // Only `connect` starts a request, and only `opened` and bytes keep it.
      if (expected === 'connecting') expect([undefined, before.request]).not.toContain(next.request)
      else
        expect(next.request).toBe(['connecting', 'live'].includes(next.phase) ? REQUEST : undefined)
    },
  )
})

test('a connection that a hidden page released is restored when the page is shown', () => {
  const released = after(STATES.live, 'hidden')
  expect(tickAt(released)).toBe(Infinity)
  expect(describeConnection(released, NOW + 60_000)).toEqual({ status: 'live' })
  const shown = after(released, 'wake', NOW + 60_000)
  expect(shown.phase).toBe('connecting')
  expect(describeConnection(shown, NOW + 62_999).status).toBe('live')
  expect(describeConnection(shown, NOW + 63_000).status).toBe('reconnecting')
})

describe('back-off', () => {
  const delays = (random: number, lifeMs = 0) => {
    let at = after(STATES.live, 'lost', NOW, random)
    const found: number[] = []
    for (let round = 0; round < 9; round++) {
      const { since, dueAt } = at
      found.push(dueAt - since)
      at = after(at, 'tick', dueAt, random)
      if (lifeMs > 0) at = after(at, 'opened', dueAt, random)
      at = after(at, 'lost', dueAt + lifeMs, random)
    }
    return found
  }

  test('doubles from 250 ms to 15 s, with full jitter', () => {
    const full = [250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]
    expect(delays(1)).toEqual(full)
    expect(delays(0.5)).toEqual(full.map((ms) => ms / 2))
    expect(delays(0)).toEqual(full.map(() => 0))
  })

  test('goes on growing until a connection lived for 5 s', () => {
    expect(delays(1, 4999).slice(0, 3)).toEqual([250, 500, 1000])
    expect(delays(1, 5000).slice(0, 3)).toEqual([250, 250, 250])
  })

  test('waits as long as the server asks, whatever happens meanwhile', () => {
    const cause = new ClientError('busy', { status: 429, retryAfterMs: 20_000 })
    const waiting = after(STATES.live, 'lost', NOW, 1, { cause })
    expect(waiting.dueAt).toBe(NOW + 20_000)
    for (const kind of ['wake', 'open', 'tick'] as const) {
      expect(after(waiting, kind, NOW + 2999)).toBe(waiting)
      expect(after(waiting, kind, NOW + 20_000).phase).toBe('connecting')
    }
  })

  test('ends at once when the page wakes, or somebody asks', () => {
    const waiting = { ...STATES.waiting, dueAt: NOW + 10_000 }
    expect(after(waiting, 'tick')).toBe(waiting)
    expect(after(waiting, 'wake').phase).toBe('connecting')
    expect(after(waiting, 'open').phase).toBe('connecting')
  })
})

describe.each(['connecting', 'live'] as const)('silence while %s', (phase) => {
  const silent = (ms: number) => ({
    ...STATES[phase],
    since: 0,
    dueAt: NOW - ms + 2000,
    pingMs: 1000,
  })

  test('a tick after twice the heartbeat interval loses it', () => {
    expect(after(silent(1999), 'tick').phase).toBe(phase)
    const lost = after(silent(2000), 'tick')
    expect(lost).toMatchObject({ phase: 'waiting', cause: { code: 'CONNECTION_LOST' } })
  })

  test('a wake after the heartbeat interval replaces the request at once', () => {
    const kept = silent(1000)
    expect(after(kept, 'wake')).toBe(kept)
    const replaced = after(silent(1001), 'wake')
    expect(replaced).toMatchObject({ phase: 'connecting', cause: { message: 'Timed out' } })
    expect(replaced.request).not.toBe(REQUEST)
  })

  test('bytes end it', () => {
    expect(after(silent(5000), 'heard')).toMatchObject({ dueAt: NOW + 2000, pingMs: 1000 })
  })

  test('is not watched while the page is hidden', () => {
    expect(tickAt(silent(0))).toBe(NOW + 2000)
    expect(tickAt(silent(0), { isHidden: true })).toBe(Infinity)
    const late = silent(60_000)
    expect(transition(late, 'tick', { now: NOW, random: 1, isHidden: true })).toBe(late)
  })
})

describe('what is shown', () => {
  test.each<[Phase, string]>([
    ['idle', 'idle'],
    ['connecting', 'connecting'],
    ['live', 'live'],
    ['waiting', 'live'],
    ['ended', 'ended'],
    ['failed', 'failed'],
  ])('%s is %s', (phase, status) => {
    expect(describeConnection(STATES[phase], NOW).status).toBe(status)
  })

  test('a cut shorter than 3 s is not shown, a longer one with its cause', () => {
    const lost = after(STATES.live, 'lost')
    const again = after(lost, 'tick', lost.dueAt)
    const twice = after(again, 'lost', NOW + 2999)
    for (const at of [lost, again, twice]) {
      expect(describeConnection(at, NOW + 2999)).toEqual({ status: 'live' })
    }
    expect(tickAt(twice, { now: NOW + 2999 })).toBe(NOW + 3000)
    const overdue = after(twice, 'tick', NOW + 3000)
    const waiting = { status: 'reconnecting', cause: CAUSE, retryAt: overdue.dueAt }
    expect(describeConnection(overdue, NOW + 3000)).toEqual(waiting)
    const connecting = after(overdue, 'tick', overdue.dueAt)
    expect(tickAt(connecting, { now: overdue.dueAt })).toBe(overdue.dueAt + 20_000)
    const shown = { status: 'reconnecting', cause: CAUSE }
    expect(describeConnection(connecting, overdue.dueAt)).toEqual(shown)
    const live = after(connecting, 'opened', overdue.dueAt)
    expect(describeConnection(live, overdue.dueAt)).toEqual({ status: 'live' })
  })

  test('the cause of a first connection that fails is, and when it is tried again', () => {
    const lost = after(STATES.connecting, 'lost')
    const waiting = { status: 'connecting', cause: CAUSE, retryAt: lost.dueAt }
    expect(describeConnection(lost, NOW + 9999)).toEqual(waiting)
    const again = after(lost, 'tick', lost.dueAt)
    expect(describeConnection(again, NOW + 9999)).toEqual({ status: 'connecting', cause: CAUSE })
  })
})

test('a stream that opens may announce its heartbeat interval', () => {
  const opened = after(STATES.connecting, 'opened', NOW, 1, { pingMs: 30 })
  expect(opened).toMatchObject({ phase: 'live', pingMs: 30 })
})

test('what is gone has ended if it was there, and may exist again', () => {
  const ended = after(STATES.live, 'gone')
  expect(describeConnection(ended, NOW)).toEqual({ status: 'ended', cause: REFUSAL })
  expect(after(ended, 'open')).toMatchObject({ phase: 'connecting', hasOpened: false })
  expect(after(STATES.ended, 'open')).toBe(STATES.ended)
})

test('a connection that failed and is opened again starts over', () => {
  const failed = after({ ...STATES.connecting, delayMs: 8000, pingMs: 7 }, 'refused')
  const { delayMs } = IDLE
  expect(after(failed, 'open')).toMatchObject({ phase: 'connecting', delayMs, pingMs: 2500 })
})

test('docs/client.md has the same table', () => {
  const rows = tableRows(section(read('docs/client.md'), 'Reconnecting'))
  const phases = Object.keys(EXPECTED) as Phase[]
  const shown = { ignored: '–', same: '=' } as Record<string, string>
  const expected = (Object.keys(FACTS) as LinkEvent[]).map((kind) => [
    kind,
    ...phases.map((phase) => shown[EXPECTED[phase][kind]] ?? EXPECTED[phase][kind]),
  ])
  const documented = rows.map(([name = '', ...cells]) => [/`(\w+)`/.exec(name)?.[1], ...cells])
  expect(documented).toEqual(expected)
})
