import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import { type FakeClock, fakeClock } from '../../../conformance/src/index.ts'
import type { TurnInput } from '../../../core/src/formats/submission.ts'
import { type StreamEventPayload, TurnstreamError } from '../../../core/src/index.ts'
import { THREAD_ID, TURN_ID } from '../../../core/test/processor/events.ts'
import { endOrphan, type TurnRunner } from '../../src/server.ts'
import { answerApproval } from '../../src/turns/approvals.ts'
import { broken, call, delta, done, end, open, usage, used } from './payloads.ts'
import { type Call, newRig, PROMPT, type Puppet } from './rig.ts'
import { checkWhole } from './whole-turn.ts'
import { type Fault, type Faulty, WildLog } from './wild-log.ts'

const LEASE_MS = 3000
const MAX_DURATION_MS = 60_000
const MAX_APPROVAL_MS = 12_000

/** What may happen while a turn runs. */
type Action =
  | { readonly do: 'say'; readonly payloads: readonly StreamEventPayload[] }
  | { readonly do: 'break' | 'close' | 'steal' | 'delete' | 'heal' }
  | { readonly do: 'cancel' | 'shutdown' | 'pass'; readonly ms: number }
  | { readonly do: 'tool'; readonly fails: boolean }
  | { readonly do: 'ask'; readonly id: string; readonly answer: boolean | undefined }
  | { readonly do: 'answer'; readonly approved: boolean; readonly which: number }
  | { readonly do: 'fault'; readonly at: Faulty; readonly fault: Fault }
  | { readonly do: 'jobs'; readonly count: number }

const FAULTY: readonly Faulty[] = ['append', 'renew', 'cancelled', 'addOnce', 'watch']

const ids = fc.constantFrom('a', 'b', 'c')
const text = fc.constantFrom(
  'x',
  'word ',
  'a longer piece of text that is shown at once, for it is long',
)

const says: fc.Arbitrary<readonly StreamEventPayload[]> = fc.oneof(
  { arbitrary: fc.tuple(ids, text).map(([id, piece]) => [delta(id, piece)]), weight: 6 },
  { arbitrary: ids.map((id) => [open(id)]), weight: 4 },
  { arbitrary: fc.tuple(ids, text).map(([id, piece]) => [done(id, piece)]), weight: 2 },
  ids.map((id) => call(id, 'tool')),
  ids.map((id) => call(id, 'guarded')),
  ids.map((id) => call(id, 'of the client')),
  fc.nat(9).map((count) => [used(usage(1, count))]),
  fc.constantFrom('stop', 'length', 'tool_calls').map((reason) => [end(reason)]),
  fc.constant([broken('HTTP_500')]),
)

const fault: fc.Arbitrary<Fault> = fc.oneof(
  fc.record({
    kind: fc.constantFrom('refused' as const, 'unanswered' as const),
    code: fc.constantFrom(
      'STORE_UNAVAILABLE' as const,
      'STORE_FAILED' as const,
      'STORE_READ_ONLY' as const,
    ),
  }),
  fc.record({ kind: fc.constantFrom('silent' as const, 'stuck' as const) }),
)

const action: fc.Arbitrary<Action> = fc.oneof(
  { arbitrary: says.map((payloads) => ({ do: 'say' as const, payloads })), weight: 10 },
  {
    arbitrary: fc
      .constantFrom(0, 1, 250, 999, 1000, 1500, LEASE_MS, 10_000)
      .map((ms) => ({ do: 'pass' as const, ms })),
    weight: 5,
  },
  { arbitrary: fc.nat(6).map((count) => ({ do: 'jobs' as const, count })), weight: 3 },
  fc.constant({ do: 'cancel' as const, ms: 0 }),
  fc.constantFrom(0, 500, 5000).map((ms) => ({ do: 'shutdown' as const, ms })),
  fc.boolean().map((fails) => ({ do: 'tool' as const, fails })),
  {
    arbitrary: fc
      .tuple(ids, fc.constantFrom(true, true, false, undefined))
      .map(([id, answer]) => ({ do: 'ask' as const, id, answer })),
    weight: 3,
  },
  {
    arbitrary: fc
      .tuple(fc.boolean(), fc.nat(3))
      .map(([approved, which]) => ({ do: 'answer' as const, approved, which })),
    weight: 2,
  },
  fc
    .constantFrom(...(['break', 'close', 'steal', 'heal', 'heal'] as const))
    .map((what) => ({ do: what })),
  fc
    .tuple(fc.constantFrom<Faulty>(...FAULTY), fault)
    .map(([at, each]) => ({ do: 'fault' as const, at, fault: each })),
)

/** A turn, those who work for it, and those who work against it. */
class World {
  readonly clock: FakeClock = fakeClock(1_000_000)
  readonly log = new WildLog(this.clock)
  readonly provider: Puppet
  readonly runner: TurnRunner
  readonly tools: { resolve: (output: string) => void; reject: (error: Error) => void }[] = []
  /** How many calls of the tool that needs approval ran. */
  guardedRuns = 0
  /** How many appends were called before the turn was let go. */
  lostAfter: number | undefined

  constructor() {
    const execute = () =>
      new Promise<string>((resolve, reject) => {
        this.tools.push({ resolve, reject })
      })
    const guarded = () => {
      this.guardedRuns += 1
      return execute()
    }
    const { provider, runner } = newRig({
      log: this.log,
      clock: this.clock,
      leaseMs: LEASE_MS,
      caps: { maxTurnTimeMs: MAX_DURATION_MS, maxApprovalTimeMs: MAX_APPROVAL_MS },
      tools: [
        { name: 'tool', parameters: {}, execute },
        { name: 'guarded', parameters: {}, needsApproval: true, execute: guarded },
      ],
      onError: (error) => this.#note(error),
    })
    this.provider = provider
    this.runner = runner
  }

  #note(error: unknown): void {
    const isStores = error instanceof TurnstreamError && /^(?:LEASE_LOST|STORE_)/.test(error.code)
    if (isStores) this.lostAfter ??= this.log.epochs.length
  }

  async act(what: Action): Promise<void> {
    switch (what.do) {
      case 'say':
        return this.#toProvider(({ say }) => say(...what.payloads))
      case 'break':
        return this.#toProvider(({ stream }) => stream.error(new Error('broken')))
      case 'close':
        return this.#toProvider(({ stream }) => stream.complete())
      case 'pass':
        return this.clock.advance(what.ms)
      case 'jobs':
        for (let jobs = 0; jobs < what.count; jobs++) await Promise.resolve()
        return
      case 'cancel':
        void this.runner.cancel(TURN_ID, 'enough').catch(() => {})
        return
      case 'shutdown':
        void this.runner.shutdown(what.ms)
        return
      case 'tool':
        if (what.fails) this.tools.shift()?.reject(new Error('failed'))
        else this.tools.shift()?.resolve('answer')
        return
      case 'ask':
        this.#toProvider(({ say, stream }) => {
          say(...call(what.id, 'guarded'), end('tool_calls'))
          stream.complete()
        })
        if (what.answer === undefined) return
        await this.clock.advance(0)
        return this.#answer(what.answer, 0)
      case 'answer':
        return this.#answer(what.approved, what.which)
      case 'fault':
        this.log.faults.set(what.at, what.fault)
        return
      case 'heal':
        this.log.faults.clear()
        return
      case 'steal':
        return this.#steal()
      case 'delete':
        await this.log.deleteTurn(TURN_ID)
    }
  }

  /** Answers one of the approvals that readers can see, answered or not. */
  #answer(approved: boolean, which: number): void {
    const asked = [...this.log.kept.events.join('').matchAll(/"approval":\{"id":"([^"]+)"/g)]
    const [, id] = asked.at(-1 - which) ?? []
    if (id === undefined) return
    answerApproval(this.log, TURN_ID, id, { approved, at: this.clock.now() }).catch(() => {})
  }

  #toProvider(tell: (call: Call) => void): void {
    const last = this.provider.calls.at(-1)
    const isOver = last === undefined || last.stream.isStreamCompleted() || last.stream.isAborted()
    if (!isOver) tell(last)
  }

  /** Another process takes the turn, if its lease has run out, and ends it. */
  async #steal(): Promise<void> {
    const before = new Map(this.log.faults)
    this.log.faults.clear()
    const { clock } = this
    await endOrphan(this.log, TURN_ID, { owner: 'another', leaseMs: LEASE_MS, clock }).catch(
      () => {},
    )
    for (const [at, each] of before) this.log.faults.set(at, each)
  }

  /** Every turn is over after its longest time and a lease, whatever its store does. */
  async sitOut(): Promise<void> {
    this.log.faults.clear()
    await this.clock.advance(MAX_DURATION_MS + 2 * LEASE_MS + 2000)
  }
}

/** Nobody works for the turn any more, and its owner wrote nothing after it had let go. */
function checkReleased({ runner, provider, lostAfter, log, guardedRuns }: World): void {
  expect(runner.running).toBe(0)
  expect(provider.calls.filter(({ signal }) => !signal.aborted)).toEqual([])
  const late = lostAfter === undefined ? [] : log.epochs.slice(lostAfter)
  expect(late.filter((epoch) => epoch === 1)).toEqual([])
  expect(guardedRuns).toBeLessThanOrEqual(log.approved)
}

const QUESTIONS = ['q1', 'q2', 'q3']

/** A turn that ended with calls of the client's tools. */
async function leaveQuestions(world: World): Promise<void> {
  const { runner, provider, clock } = world
  await runner.submit({ turnId: 'earlier', threadId: THREAD_ID, input: [] })
  const { say, stream } = await provider.called(1)
  say(...QUESTIONS.flatMap((id) => call(id, 'of the client', { call_id: id })), end('tool_calls'))
  stream.complete()
  while (runner.running > 0) await clock.advance(0)
}

function answersTo(callIds: readonly string[]): TurnInput[] {
  const fields = { type: 'function_call_output', output: 'yes', success: true } as const
  return callIds.map((call_id) => ({ ...fields, call_id }))
}

/** The calls of the client's tools that a turn has completed. */
async function completedIn(log: WildLog, turnId: string): Promise<string[]> {
  const { records } = await log.snapshot(turnId)
  return records.flatMap(({ key, output }) =>
    output.type === 'tool_call' && key.startsWith('earlier:') ? [`${key} ${output.status}`] : [],
  )
}

async function live(actions: readonly Action[]): Promise<World> {
  const world = new World()
  const submitted = world.runner.submit({
    turnId: TURN_ID,
    threadId: THREAD_ID,
    input: [{ type: 'message', origin: 'user', content: 'Hi' }],
  })
  submitted.catch(() => {})
  for (const each of actions) await world.act(each)
  await world.sitOut()
  return world
}

const lives = fc.array(action, { maxLength: 40 })

/** Lives a life, checks what is left of it, and returns how the turn and its approvals ended. */
async function checkLife(actions: readonly Action[]): Promise<string[]> {
  const world = await live(actions)
  checkReleased(world)
  await world.act({ do: 'steal' })
  await checkWhole(world.log)
  await world.runner.shutdown(0)
  expect(world.clock.pending()).toBe(0)
  const last = JSON.parse(world.log.kept.events.at(-1) ?? '') as {
    type: string
    payload: { error?: { code: string } }
  }
  const events = world.log.kept.events.join('')
  const answers = ['"approved":true', '"approved":false', '"reason":"timeout"']
  const seen = answers.filter((answer) => events.includes(answer))
  return [last.payload.error?.code ?? last.type, ...seen]
}

// A life takes some milliseconds, and there are many.
describe('a turn under random failures', { timeout: 120_000 }, () => {
  test('is written to its end once, by its owner or a claimer', async () => {
    const whole = fc.asyncProperty(lives, async (actions) => void (await checkLife(actions)))
    await fc.assert(whole, { numRuns: caseCount(600) })
  })

  // The same lives in every run: in random ones, a rare end may be missing.
  test('ends in every way', { tags: ['slow'] }, async () => {
    const ends = new Set<string>()
    for (const actions of fc.sample(lives, { numRuns: 600, seed: 1 })) {
      for (const end of await checkLife(actions)) ends.add(end)
    }
    expect([...ends]).toEqual(
      expect.arrayContaining([
        'response_done',
        'turn_aborted_by_user',
        'PRODUCER_LOST',
        'SERVER_SHUTDOWN',
        'TURN_TIME_LIMIT',
        'UPSTREAM_TRUNCATED',
        'STREAM_ERROR',
        'HTTP_500',
        '"approved":true',
        '"approved":false',
        '"reason":"timeout"',
      ]),
    )
  })

  test('V4 completes each call that the client answers once, however often it is answered', async () => {
    const kinds = new Set<string>()
    await fc.assert(
      fc.asyncProperty(lives, fc.subarray(QUESTIONS), async (actions, answered) => {
        const world = new World()
        const { log, clock, runner } = world
        await leaveQuestions(world)
        const input = [...answersTo(answered), PROMPT]
        const submitted = runner.submit({ turnId: TURN_ID, threadId: THREAD_ID, input })
        submitted.catch(() => {})
        for (const each of actions) await world.act(each)
        await world.sitOut()
        await world.act({ do: 'steal' })
        await checkWhole(log)
        await runner.shutdown(0)
        const first = await completedIn(log, TURN_ID)
        expect(answered.length >= first.length).toBe(true)
        kinds.add(`${answered.length > 0} ${first.length > 0}`)

        const rig = newRig({ log, clock, rounds: [[end()]] })
        const again = { turnId: 'again', threadId: THREAD_ID, input: answersTo(QUESTIONS) }
        await rig.runner.submit(again)
        await rig.settled()
        const all = [...first, ...(await completedIn(log, 'again'))]
        expect(all.toSorted()).toEqual(QUESTIONS.map((_, at) => `earlier:${at + 1} complete`))
      }),
      { numRuns: caseCount(150) },
    )
    expect(kinds).toContain('true true')
  })

  test('is abandoned when it is deleted', async () => {
    await fc.assert(
      fc.asyncProperty(lives, fc.nat(), async (actions, at) => {
        const before = actions.slice(0, at % (actions.length + 1))
        const rest = actions.slice(before.length)
        const world = await live([...before, { do: 'pass', ms: 0 }, { do: 'delete' }, ...rest])
        checkReleased(world)
        expect(await world.log.getTurn(TURN_ID)).toBeUndefined()
      }),
      { numRuns: caseCount(200) },
    )
  })

  test('is over after a shutdown, with both logs sealed or a failed store', async () => {
    await fc.assert(
      fc.asyncProperty(lives, fc.constantFrom(0, 1000), async (actions, graceMs) => {
        const calm = actions.filter((each) => each.do !== 'fault' && each.do !== 'steal')
        const world = new World()
        await world.runner.submit({
          turnId: TURN_ID,
          threadId: THREAD_ID,
          input: [{ type: 'message', origin: 'user', content: 'Hi' }],
        })
        for (const each of calm) await world.act(each)
        const shutdown = world.runner.shutdown(graceMs)
        await world.clock.advance(graceMs)
        await shutdown
        expect(world.lostAfter).toBeUndefined()
        checkReleased(world)
        await checkWhole(world.log)
        expect(world.clock.pending()).toBe(0)
      }),
      { numRuns: caseCount(200) },
    )
  })
})
