/** V4: outputs of the client's tools complete the calls of earlier turns. */

import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { TurnInput } from '../../../core/src/formats/submission.ts'
import type { StreamOutput } from '../../../core/src/index.ts'
import { endOrphan } from '../../src/server.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { answer, broken, call, end } from './payloads.ts'
import {
  LEASE_MS,
  newRig,
  outputsOf,
  PROMPT,
  payloadsOf,
  type Rig,
  type Round,
  readLog,
  tick,
} from './rig.ts'

const THREAD = 'thread'

function output(callId: string, text: string, success = true): TurnInput {
  return { type: 'function_call_output', call_id: callId, output: text, success }
}

const ASK: Round = [...call('1', 'ask', { call_id: 'c1', arguments: '{"q":1}' }), end('tool_calls')]
const ANSWER: Round = [...answer('2', 'Done'), end()]

/** Runs one turn of the thread to its end. */
async function turn(rig: Rig, runId: string, input: readonly TurnInput[] = [PROMPT]) {
  const submitted = await rig.submit({ runId, threadId: THREAD, input })
  await rig.settled()
  return submitted
}

async function cardsOf(rig: Rig, runId: string): Promise<StreamOutput[]> {
  return (await outputsOf(rig.log, runId)).filter(({ type }) => type === 'tool_call')
}

const CARD = {
  type: 'tool_call',
  threadId: THREAD,
  itemId: 'a:1',
  toolName: 'ask',
  toolArguments: { q: 1 },
  callId: 'c1',
  content: '',
}

describe('V4 an output of the client', () => {
  test('completes a call of a turn before one whose content was deleted early', async () => {
    const rig = newRig({ rounds: [ASK, ANSWER, ANSWER] })
    await turn(rig, 'a')
    await rig.submit({ runId: 'gap', threadId: THREAD, contentMs: 1000 })
    await rig.settled()
    await rig.clock.advance(1000)
    await turn(rig, 'b', [output('c1', '{"n":42}'), PROMPT])
    expect(await cardsOf(rig, 'b')).toMatchObject([{ ...CARD, status: 'complete' }])
  })

  test('completes the call with its item id, name and arguments, before the model speaks', async () => {
    const rig = newRig({ rounds: [ASK, ANSWER] })
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c1', '{"n":42}'), PROMPT])
    expect(await cardsOf(rig, 'a')).toMatchObject([{ ...CARD, status: 'create' }])
    const shown = await outputsOf(rig.log, 'b')
    expect(shown.map((each) => ('itemId' in each ? each.itemId : each.type))).toEqual([
      'turn_started',
      'a:1',
      'b-user-prompt',
      'b:1',
      'turn_complete',
    ])
    const completed = { status: 'complete', toolOutput: { n: 42 }, success: true, turnId: 'b' }
    expect(shown[1]).toEqual({ ...CARD, ...completed })
    expect(shown.at(-1)).not.toHaveProperty('pendingCalls')
    expect(rig.errors).toEqual([])
  })

  test('is in the events with the call that it answers, and in the Response with its id', async () => {
    const rig = newRig({ rounds: [ASK, ANSWER] })
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c1', 'ok')])
    const done = (await payloadsOf(rig.log, 'b')).find(({ type }) => type === 'item_done')
    expect(done).toEqual({
      type: 'item_done',
      item_id: 'b-input-1',
      final_item: {
        type: 'function_call_output',
        id: 'b-input-1',
        call_id: 'c1',
        output: 'ok',
        success: true,
      },
      answers: { item_id: 'a:1', name: 'ask', arguments: '{"q":1}' },
    })
    const response = JSON.parse((await rig.log.getResponse('b')) ?? '') as {
      output_items: object[]
    }
    expect(response.output_items[0]).toMatchObject({ answers: { item_id: 'a:1' } })
  })

  test('that failed completes the call, without success', async () => {
    const rig = newRig({ rounds: [ASK, ANSWER] })
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c1', 'no network', false)])
    const failed = { status: 'complete', toolOutput: 'no network', success: false }
    const cards = await cardsOf(rig, 'b')
    expect(cards).toMatchObject([{ ...CARD, ...failed }])
    expect(cards[0]).not.toHaveProperty('errorCode')
  })

  test('may come several turns later, and answers only its own call', async () => {
    const both = [
      ...call('1', 'ask', { call_id: 'c1' }),
      ...call('2', 'look', { call_id: 'c2' }),
      end('tool_calls'),
    ]
    const rig = newRig({ rounds: [both, ANSWER, ANSWER, ANSWER] })
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c2', 'seen')])
    await turn(rig, 'c')
    await turn(rig, 'd', [output('c1', 'told')])
    expect(await cardsOf(rig, 'b')).toMatchObject([{ itemId: 'a:2', toolOutput: 'seen' }])
    expect(await cardsOf(rig, 'c')).toEqual([])
    expect(await cardsOf(rig, 'd')).toMatchObject([{ itemId: 'a:1', toolOutput: 'told' }])
  })

  test('answers the newest unanswered call of a reused id', async () => {
    const rig = newRig({ rounds: [ASK, ASK, ANSWER, ANSWER] })
    await turn(rig, 'a')
    await turn(rig, 'b')
    await turn(rig, 'c', [output('c1', 'new')])
    await turn(rig, 'd', [output('c1', 'old')])
    expect(await cardsOf(rig, 'c')).toMatchObject([{ itemId: 'b:1', toolOutput: 'new' }])
    expect(await cardsOf(rig, 'd')).toMatchObject([{ itemId: 'a:1', toolOutput: 'old' }])
  })

  test('answers calls of a turn that failed', async () => {
    const rig = newRig({ rounds: [[...call('1', 'ask', { call_id: 'c1' }), broken('E')], ANSWER] })
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c1', 'ok')])
    expect(await cardsOf(rig, 'b')).toMatchObject([{ itemId: 'a:1', status: 'complete' }])
  })
})

describe('V4 a second answer', () => {
  test('with the same output is accepted without a card or history entry', async () => {
    const rig = newRig({ rounds: [ASK, [broken('HTTP_500')], ANSWER] })
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c1', 'ok')])
    await turn(rig, 'c', [output('c1', 'ok')])
    expect(await cardsOf(rig, 'c')).toEqual([])
    expect((await payloadsOf(rig.log, 'c')).map(({ type }) => type)).not.toContain('answers')
    const sent = rig.provider.calls[2]?.request.input ?? []
    expect(sent.map(({ type }) => type)).toEqual([
      'message',
      'function_call',
      'function_call_output',
    ])
  })

  test('in the same request counts once', async () => {
    const rig = newRig({ rounds: [ASK, ANSWER] })
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c1', 'ok'), output('c1', 'ok')])
    expect(await cardsOf(rig, 'b')).toHaveLength(1)
    const outputs = rig.provider.calls[1]?.request.input.filter(
      ({ type }) => type === 'function_call_output',
    )
    expect(outputs).toHaveLength(1)
  })

  test.each([
    ['another output', [output('c1', 'other')]],
    ['another success', [output('c1', 'ok', false)]],
  ])('with %s is TOOL_CALL_ANSWERED, and no turn is created', async (_name, input) => {
    const rig = newRig({ rounds: [ASK, ANSWER] })
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c1', 'ok')])
    await expect(turn(rig, 'c', input)).rejects.toMatchObject({ code: 'TOOL_CALL_ANSWERED' })
    expect(await rig.log.getTurn('c')).toBeUndefined()
  })

  test('of a repeated submit is the same turn; with another body it is SUBMIT_CONFLICT', async () => {
    const rig = newRig({ rounds: [ASK, ANSWER] })
    await turn(rig, 'a')
    const first = await turn(rig, 'b', [output('c1', 'ok')])
    expect(await turn(rig, 'b', [output('c1', 'ok')])).toEqual(first)
    const other = turn(rig, 'b', [output('c1', 'other')])
    await expect(other).rejects.toMatchObject({ code: 'SUBMIT_CONFLICT' })
    expect(rig.provider.calls).toHaveLength(2)
  })
})

describe('V4 an output that answers nothing', () => {
  test.each([
    ['an unknown call', [output('nobody', 'x')], ASK],
    ['a call that failed', [output('c1', 'x')], failedCall()],
    ['a call that the provider ran', [output('c1', 'x')], providersCall()],
  ])('but %s is TOOL_CALL_UNKNOWN', async (_name, input, round) => {
    const rig = newRig({ rounds: [round] })
    await turn(rig, 'a')
    await expect(turn(rig, 'b', input)).rejects.toMatchObject({ code: 'TOOL_CALL_UNKNOWN' })
    expect(await rig.log.getTurn('b')).toBeUndefined()
    expect(rig.runner.running).toBe(0)
  })

  test('is TOOL_CALL_UNKNOWN for a call of another thread', async () => {
    const rig = newRig({ rounds: [ASK] })
    await turn(rig, 'a')
    const elsewhere = rig.submit({ runId: 'b', threadId: 'other', input: [output('c1', 'x')] })
    await expect(elsewhere).rejects.toMatchObject({ code: 'TOOL_CALL_UNKNOWN' })
  })

  test('is accepted as a plain item where any output is', async () => {
    const rig = newRig({ rounds: [ASK, ANSWER, ANSWER] })
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c1', 'ok')])
    const input = [output('c1', 'other'), output('nobody', 'x')]
    await rig.submit({ runId: 'c', threadId: THREAD, input }, { acceptsAnyOutput: true })
    await rig.settled()
    expect(await cardsOf(rig, 'c')).toEqual([])
  })

  test('is kept when the request brings the history, also if the thread has it', async () => {
    const rig = newRig({ rounds: [ASK, ANSWER, ANSWER] })
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c1', 'ok')])
    const history = [
      { type: 'function_call', call_id: 'c1', name: 'ask', arguments: '{}' },
    ] as const
    await rig.submit({ runId: 'c', threadId: THREAD, history, input: [output('c1', 'ok')] })
    await rig.settled()
    expect(await cardsOf(rig, 'c')).toEqual([])
    expect(rig.provider.calls[2]?.request.input.map(({ type }) => type)).toEqual([
      'function_call',
      'function_call_output',
    ])
  })

  test('is accepted when the request says itself what was called', async () => {
    const rig = newRig({ rounds: [ANSWER] })
    const history = [{ type: 'function_call', call_id: 'x', name: 'ask', arguments: '{}' }] as const
    await rig.submit({ runId: 'a', history, input: [output('x', 'ok')] })
    await rig.settled()
    expect(await cardsOf(rig, 'a')).toEqual([])
  })
})

function failedCall(): Round {
  const error = { code: 'E', message: 'why' }
  return [
    ...call('1', 'ask', { call_id: 'c1' }),
    { type: 'item_error', item_id: '1', error },
    end('tool_calls'),
  ]
}

function providersCall(): Round {
  const provider_metadata = { executed_by: 'provider' }
  return [...call('1', 'search', { call_id: 'c1', provider_metadata }), end()]
}

describe('V4 between search and creation', () => {
  /** Runs `meanwhile` once, when the turn `b` is about to be created. */
  function slowRig(rounds: readonly Round[], meanwhile: (rig: Rig) => Promise<unknown>): Rig {
    const clock = fakeClock(1_000_000)
    const log = new HookedLog({ clock })
    const create = log.create.bind(log)
    let isFirst = true
    log.create = async (turn, leaseMs) => {
      if (turn.turnId === 'b' && isFirst) {
        isFirst = false
        await meanwhile(rig)
      }
      return create(turn, leaseMs)
    }
    const rig = newRig({ log, clock, rounds })
    return rig
  }

  test('another answer to the same call is noticed: the later turn is refused and gone', async () => {
    const rig = slowRig([ASK, ANSWER, ANSWER], (each) => turn(each, 'x', [output('c1', 'first')]))
    await turn(rig, 'a')
    const late = turn(rig, 'b', [output('c1', 'second')])
    await expect(late).rejects.toMatchObject({ code: 'TOOL_CALL_ANSWERED' })
    expect(await rig.log.getTurn('b')).toBeUndefined()
    await turn(rig, 'c')
    expect(rig.errors).toEqual([])
  })

  test('the same answer is not shown twice', async () => {
    const rig = slowRig([ASK, ANSWER, ANSWER], (each) => turn(each, 'x', [output('c1', 'ok')]))
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c1', 'ok')])
    expect(await cardsOf(rig, 'x')).toHaveLength(1)
    expect(await cardsOf(rig, 'b')).toEqual([])
  })

  test('of a running thread is THREAD_BUSY, whatever the output', async () => {
    const rig = newRig({ rounds: [ASK, () => {}] })
    await turn(rig, 'a')
    await rig.submit({ runId: 'b', threadId: THREAD })
    await rig.provider.called(2)
    const busy = rig.submit({ runId: 'c', threadId: THREAD, input: [output('nobody', 'x')] })
    await expect(busy).rejects.toMatchObject({ code: 'THREAD_BUSY' })
    const shutdown = rig.runner.shutdown(0)
    await tick(rig.clock)
    await shutdown
  })
})

describe('V4 the copy of the call', () => {
  const long = JSON.stringify({ text: 'x'.repeat(600) })
  const ASK_LONG: Round = [...call('1', 'ask', { call_id: 'c1', arguments: long }), end()]

  test('counts against the text of the turn', async () => {
    const rounds = [ASK_LONG, [...answer('2', 'y'.repeat(700)), end()]]
    const rig = newRig({ rounds, caps: { maxTurnChars: 1300 } })
    await turn(rig, 'a')
    await turn(rig, 'b', [output('c1', 'ok')])
    expect(await cardsOf(rig, 'b')).toMatchObject([{ itemId: 'a:1', status: 'complete' }])
    expect((await outputsOf(rig.log, 'b')).at(-1)).toMatchObject({
      error: { code: 'TURN_TEXT_LIMIT' },
    })
  })

  test('that exceeds it alone is INPUT_TOO_LARGE', async () => {
    const rig = newRig({ rounds: [ASK_LONG] })
    await turn(rig, 'a')
    const { log, clock } = rig
    const small = newRig({ log, clock, caps: { maxTurnChars: 640 } })
    const refused = turn(small, 'b', [output('c1', 'ok')])
    await expect(refused).rejects.toMatchObject({ code: 'INPUT_TOO_LARGE' })
  })
})

test('V4 a process that ends the turn of another completes the call, too', async () => {
  const clock = fakeClock(1_000_000)
  const log = new HookedLog({ clock })
  const rig = newRig({ log, clock, rounds: [ASK, () => {}] })
  await turn(rig, 'a')
  const append = log.append.bind(log)
  log.append = (lease, name, ...rest) =>
    lease.turnId === 'b' && lease.epoch === 1 && name === 'processed'
      ? new Promise(() => {})
      : append(lease, name, ...rest)
  log.renew = () => new Promise(() => {})
  await rig.submit({ runId: 'b', threadId: THREAD, input: [output('c1', 'ok')] })
  await tick(clock)
  await clock.advance(LEASE_MS)
  expect(await readLog(log, 'b', 'processed')).toEqual([])
  expect(await endOrphan(log, 'b', { owner: 'another', leaseMs: LEASE_MS, clock })).toBe('ended')
  expect(await cardsOf(rig, 'b')).toEqual([
    { ...CARD, turnId: 'b', status: 'complete', toolOutput: 'ok', success: true },
  ])
})
