import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { type ToolCall, TurnstreamError } from '../../../core/src/index.ts'
import type { Lease } from '../../../core/src/log/turn-log.ts'
import { endOrphans, type MemoryLogOptions, type Tool } from '../../src/server.ts'
import { type ApprovalDecision, answerApproval } from '../../src/turns/approvals.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { call, end, answer as say } from './payloads.ts'
import { LEASE_MS, newRig, outputsOf, payloadsOf, type Rig, storyOf, tick } from './rig.ts'
import { tool } from './some-tools.ts'

const MINUTE_MS = 60_000
const APPROVED: ApprovalDecision = { approved: true, by: 'ops', at: 7 }

const ASKED = [...call('1', 'delete', { arguments: '{"path":"/tmp/x"}' }), end('tool_calls')]
const THANKS = [...say('2', 'Thanks.'), end()]

interface DeleteTool extends Tool {
  readonly runs: unknown[]
}

function deleteTool(needsApproval: Tool['needsApproval'] = true): DeleteTool {
  const runs: unknown[] = []
  const run = (args: unknown) => {
    runs.push(args)
    return 'deleted'
  }
  return { ...tool('delete', run, { needsApproval: needsApproval ?? true }), runs }
}

async function waitingRig(options: Parameters<typeof newRig>[0] = {}) {
  const rm = deleteTool()
  const rig = newRig({ rounds: [ASKED, THANKS], tools: [rm], ...options })
  await rig.submit()
  await tick(rig.clock)
  return { ...rig, rm }
}

async function cardOf({ log }: Pick<Rig, 'log'>, itemId = 'r:1'): Promise<ToolCall> {
  const card = (await outputsOf(log)).find((each) => 'itemId' in each && each.itemId === itemId)
  if (card?.type !== 'tool_call') throw new Error(`${itemId} is not a tool call`)
  return card
}

describe('V8 a call that needs approval', () => {
  test('is written with the request, and waits without running', async () => {
    const rig = await waitingRig()
    expect((await payloadsOf(rig.log)).at(-1)).toMatchObject({
      final_item: { name: 'delete', approval: { id: 'approval-1', status: 'requested' } },
    })
    expect(await cardOf(rig)).toMatchObject({
      status: 'create',
      approval: { id: 'approval-1', status: 'requested' },
    })
    await rig.clock.advance(9 * MINUTE_MS)
    expect(rig.rm.runs).toEqual([])
    expect(rig.provider.calls).toHaveLength(1)
    expect(rig.runner.running).toBe(1)
  })

  test('runs once it is approved, and everybody sees by whom', async () => {
    const rig = await waitingRig()
    await answerApproval(rig.log, 'r', 'approval-1', APPROVED)
    await rig.settled()
    expect(rig.rm.runs).toEqual([{ path: '/tmp/x' }])
    expect((await storyOf(rig.log)).slice(2)).toEqual([
      'done r:1 delete({"path":"/tmp/x"})',
      'done r:2 approval-1 approved ',
      'open r:3 function_call_output',
      'done r:3 call-1 = deleted',
      'open r:4 message',
      'r:4 + Thanks.',
      'done r:4 Thanks.',
      'end stop ?',
    ])
    expect(await payloadsOf(rig.log)).toContainEqual({
      type: 'item_done',
      item_id: 'r:2',
      final_item: {
        type: 'approval_response',
        id: 'r:2',
        approval_id: 'approval-1',
        call_id: 'call-1',
        approved: true,
        answered_by: 'ops',
        answered_at: 7,
      },
    })
    expect(await cardOf(rig)).toMatchObject({
      status: 'complete',
      toolOutput: 'deleted',
      approval: { id: 'approval-1', status: 'approved', answeredBy: 'ops', answeredAt: 7 },
    })
    expect(rig.errors).toEqual([])
    expect(rig.clock.pending()).toBe(0)
  })

  test('is not run when it is declined, and the model reads why', async () => {
    const rig = await waitingRig()
    const answer = { approved: false, reason: 'not on a Friday', by: 'ops', at: 7 }
    await answerApproval(rig.log, 'r', 'approval-1', answer)
    await rig.settled()
    expect(rig.rm.runs).toEqual([])
    expect(rig.provider.calls[1]?.request.input.at(-1)).toMatchObject({
      type: 'function_call_output',
      call_id: 'call-1',
      output: 'The call was declined: not on a Friday',
      success: false,
    })
    expect(await cardOf(rig)).toMatchObject({
      status: 'complete',
      success: false,
      approval: { status: 'declined', reason: 'not on a Friday', answeredBy: 'ops' },
    })
  })

  test('is declined without a reason', async () => {
    const rig = await waitingRig()
    await answerApproval(rig.log, 'r', 'approval-1', { approved: false, at: 7 })
    await rig.settled()
    expect(await cardOf(rig)).toMatchObject({ toolOutput: 'The call was declined.' })
  })

  test('is declined after ten minutes, and late answers lose', async () => {
    const rig = await waitingRig()
    await rig.clock.advance(10 * MINUTE_MS - 1)
    expect(rig.provider.calls).toHaveLength(1)
    await rig.clock.advance(1)
    await rig.settled()
    const at = 1_000_000 + 10 * MINUTE_MS
    const timeout = { approved: false, reason: 'timeout', at }
    expect(await answerApproval(rig.log, 'r', 'approval-1', APPROVED)).toEqual({
      stored: false,
      answer: timeout,
    })
    expect(await cardOf(rig)).toMatchObject({
      toolOutput: 'The call was declined: it was not approved in time.',
      approval: { status: 'declined', reason: 'timeout', answeredAt: at },
    })
    expect(rig.rm.runs).toEqual([])
    expect(rig.clock.pending()).toBe(0)
  })

  test('waits as long as the option says, within the time limit of the turn', async () => {
    const short = await waitingRig({ caps: { maxApprovalTimeMs: 5000 } })
    await short.clock.advance(5000)
    await short.settled()
    expect(await cardOf(short)).toMatchObject({ approval: { reason: 'timeout' } })

    const long = await waitingRig({ caps: { maxApprovalTimeMs: 5000, maxTurnTimeMs: 3000 } })
    await long.clock.advance(3000)
    await long.settled()
    expect((await storyOf(long.log)).slice(3)).toEqual([
      'error r:1 TURN_TIME_LIMIT',
      'end TURN_TIME_LIMIT',
    ])
    expect(await answerApproval(long.log, 'r', 'approval-1', APPROVED)).toEqual({ stored: false })
  })

  test('is answered before the turn waits for it', async () => {
    const rm = deleteTool()
    const rig = newRig({
      tools: [rm],
      rounds: [({ say: speak }) => speak(...ASKED.slice(0, -1)), THANKS],
    })
    await rig.submit()
    const { say: speak, stream } = await rig.provider.called(1)
    await tick(rig.clock)
    await answerApproval(rig.log, 'r', 'approval-1', APPROVED)
    speak(end('tool_calls'))
    stream.complete()
    await rig.settled()
    expect(rm.runs).toHaveLength(1)
  })

  test('ends as an error when its response was cut off', async () => {
    const rm = deleteTool()
    const rig = newRig({ tools: [rm], rounds: [[...ASKED.slice(0, -1), end('length')]] })
    await rig.submit()
    await rig.settled()
    expect(rm.runs).toEqual([])
    expect(await cardOf(rig)).toMatchObject({
      status: 'error',
      errorCode: 'ITEM_CANCELLED',
      approval: { status: 'requested' },
    })
  })

  test('waits beside others of its response, without a slot of those that run', async () => {
    const rm = deleteTool()
    const free = tool('free', () => 'free')
    const calls = ['1', '2'].flatMap((id) => call(id, 'delete', { arguments: `{"id":${id}}` }))
    const round = [...calls, ...call('3', 'free'), end('tool_calls')]
    const caps = { maxParallelTools: 1 }
    const rig = newRig({ tools: [rm, free], rounds: [round, THANKS], caps })
    await rig.submit()
    await tick(rig.clock)
    expect(await cardOf(rig, 'r:3')).toMatchObject({ status: 'complete', toolOutput: 'free' })
    await answerApproval(rig.log, 'r', 'approval-2', APPROVED)
    await tick(rig.clock)
    expect(rm.runs).toEqual([{ id: 2 }])
    expect(await cardOf(rig, 'r:1')).toMatchObject({ status: 'create' })
    await answerApproval(rig.log, 'r', 'approval-1', { approved: false, at: 8 })
    await rig.settled()
    expect(rm.runs).toEqual([{ id: 2 }])
    expect(await cardOf(rig, 'r:2')).toMatchObject({ status: 'complete', toolOutput: 'deleted' })
    expect(await cardOf(rig, 'r:1')).toMatchObject({ success: false })
  })
})

describe('V8 needsApproval', () => {
  test('is asked with the parsed arguments', async () => {
    const rm = deleteTool(({ path }) => path !== '/tmp/x')
    const rig = newRig({ tools: [rm], rounds: [ASKED, THANKS] })
    await rig.submit()
    await rig.settled()
    expect(rm.runs).toHaveLength(1)
    expect(await cardOf(rig)).not.toHaveProperty('approval')
  })

  const broken: [string, Tool['needsApproval'], string][] = [
    [
      'throws',
      () => {
        throw new Error('no idea')
      },
      'no idea',
    ],
    [
      'returns a promise',
      (async () => false) as unknown as Tool['needsApproval'],
      'needsApproval did not return a boolean',
    ],
  ]
  test.each(broken)('fails the call when it %s', async (_what, needsApproval, message) => {
    const rm = deleteTool(needsApproval)
    const rig = newRig({ tools: [rm], rounds: [ASKED, THANKS] })
    await rig.submit()
    await rig.settled()
    expect(rm.runs).toEqual([])
    const failure = `TOOL_FAILED: The tool failed: delete: ${message}`
    expect(await cardOf(rig)).toMatchObject({ success: false, toolOutput: failure })
    expect(rig.errors).toEqual(['TOOL_FAILED'])
  })

  test('is not asked about malformed arguments, which fail the call', async () => {
    const rm = deleteTool()
    const rounds = [[...call('1', 'delete', { arguments: '[' }), end('tool_calls')], THANKS]
    const rig = newRig({ tools: [rm], rounds })
    await rig.submit()
    await rig.settled()
    expect(await cardOf(rig)).toMatchObject({ success: false })
    expect(await cardOf(rig)).not.toHaveProperty('approval')
  })

  test('is granted for at most 100 calls of a turn', async () => {
    const rm = deleteTool()
    const calls = Array.from({ length: 101 }, (_, at) => call(`${at}`, 'delete'))
    const rig = newRig({ tools: [rm], rounds: [[...calls.flat(), end('tool_calls')], THANKS] })
    await rig.submit()
    await tick(rig.clock)
    expect(await cardOf(rig, 'r:100')).toMatchObject({ status: 'create' })
    expect(await cardOf(rig, 'r:101')).toMatchObject({ status: 'complete', success: false })
    await rig.runner.shutdown(0)
  })
})

describe('V8 a provider', () => {
  test('can neither ask for approval nor grant it', async () => {
    const asked = {
      type: 'item_done',
      item_id: '1',
      final_item: {
        type: 'function_call',
        id: '1',
        name: 'ask',
        arguments: '{}',
        call_id: 'c',
        approval: { id: 'approval-1', status: 'requested' },
      },
    } as const
    const granted = {
      type: 'item_done',
      item_id: '2',
      final_item: {
        type: 'approval_response',
        id: '2',
        approval_id: 'approval-1',
        call_id: 'c',
        approved: true,
        answered_at: 1,
      },
    } as const
    const rig = newRig({ rounds: [[asked, granted, end('tool_calls')]] })
    await rig.submit()
    await rig.settled()
    expect(await storyOf(rig.log)).toEqual(['done r:1 ask({})', 'end tool_calls ?'])
    expect(await cardOf(rig)).not.toHaveProperty('approval')
  })

  test('is not sent approvals, in this turn or the next', async () => {
    const rig = await waitingRig({ rounds: [ASKED, THANKS, THANKS] })
    await answerApproval(rig.log, 'r', 'approval-1', APPROVED)
    await rig.settled()
    const { threadId = '' } = (await rig.log.getTurn('r')) ?? {}
    await rig.submit({ runId: 'next', threadId })
    await rig.settled()
    for (const { request } of rig.provider.calls.slice(1)) {
      expect(request.input.map(({ type }) => type)).not.toContain('approval_response')
      expect(request.input.map(({ type }) => type)).toContain('function_call_output')
    }
  })
})

describe('V8 a turn that waits for approval', () => {
  test('ends when it is cancelled, and the call says so', async () => {
    const rig = await waitingRig()
    await rig.runner.cancel('r', 'enough')
    expect(await answerApproval(rig.log, 'r', 'approval-1', APPROVED)).toEqual({ stored: false })
    await rig.settled()
    expect(rig.rm.runs).toEqual([])
    expect((await storyOf(rig.log)).slice(3)).toEqual([
      'error r:1 ITEM_CANCELLED',
      'aborted enough',
    ])
    expect(await cardOf(rig)).toMatchObject({
      status: 'error',
      errorMessage: 'enough',
      approval: { status: 'requested' },
    })
    expect(rig.clock.pending()).toBe(0)
  })

  test('ends at shutdown without waiting', async () => {
    const rig = await waitingRig()
    await rig.runner.shutdown(30_000)
    expect((await storyOf(rig.log)).slice(3)).toEqual([
      'error r:1 SERVER_SHUTDOWN',
      'end SERVER_SHUTDOWN',
    ])
    expect(rig.clock.pending()).toBe(0)
  })

  test('ends as soon as it has to wait after a shutdown began', async () => {
    const rm = deleteTool()
    const rig = newRig({ tools: [rm], rounds: [() => {}, THANKS] })
    await rig.submit()
    const { say: speak, stream } = await rig.provider.called(1)
    const shutdown = rig.runner.shutdown(30_000)
    await tick(rig.clock)
    expect(rig.runner.running).toBe(1)
    speak(...ASKED)
    stream.complete()
    await shutdown
    expect((await storyOf(rig.log)).at(-1)).toBe('end SERVER_SHUTDOWN')
  })

  test('ends when it is deleted', async () => {
    const rig = await waitingRig()
    await rig.log.deleteTurn('r')
    await rig.settled()
    expect(rig.rm.runs).toEqual([])
    expect(rig.clock.pending()).toBe(0)
  })

  test('ends as an orphan when its owner is gone, and takes no more answers', async () => {
    const clock = fakeClock(1_000_000)
    const log = new SilentLog({ clock })
    const rig = await waitingRig({ clock, log })
    log.isSilent = true
    await clock.advance(LEASE_MS)
    expect(await endOrphans(log, { owner: 'heir', leaseMs: LEASE_MS, clock, limit: 1 })).toBe(1)
    expect((await storyOf(log)).slice(3)).toEqual(['error r:1 PRODUCER_LOST', 'end PRODUCER_LOST'])
    expect(await cardOf(rig)).toMatchObject({ status: 'error', approval: { status: 'requested' } })
    expect(await answerApproval(log, 'r', 'approval-1', APPROVED)).toEqual({ stored: false })
    await rig.settled()
    expect(rig.rm.runs).toEqual([])
  })

  test('survives failures of the store', async () => {
    const clock = fakeClock(1_000_000)
    const log = new FailingLog({ clock })
    const rig = await waitingRig({ clock, log })
    await clock.advance(10 * MINUTE_MS)
    expect(log.failures).toBe(2)
    await clock.advance(1000)
    await rig.settled()
    expect(await cardOf(rig)).toMatchObject({ approval: { reason: 'timeout' } })
    expect((await storyOf(log)).at(-1)).toBe('end stop ?')
  })
})

/** A log that no longer renews leases. */
class SilentLog extends HookedLog {
  isSilent = false

  override renew(lease: Lease, leaseMs: number): Promise<void> {
    return this.isSilent ? new Promise(() => {}) : super.renew(lease, leaseMs)
  }
}

/** A log that fails once while an answer is awaited, and once when it is stored. */
class FailingLog extends HookedLog {
  failures = 0

  constructor(options: MemoryLogOptions) {
    super(options)
    const records = this.keyedRecords
    const [addOnce, watch] = [records.addOnce.bind(records), records.watch.bind(records)]
    records.watch = (...args) => (this.failures === 0 ? this.#fail() : watch(...args))
    records.addOnce = (...args) => (this.failures === 1 ? this.#fail() : addOnce(...args))
  }

  #fail(): Promise<never> {
    this.failures += 1
    return Promise.reject(new TurnstreamError('STORE_UNAVAILABLE', 'away'))
  }
}
