/** V6: how each item looks when its turn has ended, by what it was and by who ended the turn. */

import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { ItemSnapshot, StreamEventPayload } from '../../../core/src/index.ts'
import { endOrphan } from '../../src/server.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { broken, call, delta, end, open } from './payloads.ts'
import { LEASE_MS, newRig, outputsOf, payloadsOf, type Rig, readLog, tick } from './rig.ts'
import { checkSettled, checkSnapshotSettled } from './whole-turn.ts'

const TOOLS = [
  { name: 'slow', parameters: {}, execute: () => new Promise(() => {}), timeoutMs: 1e9 },
]
const VENDORS = { executed_by: 'provider' }
const UNFINISHED_CALL = open('c', { item_type: 'function_call', name: 'ask', call_id: 'x' })

/** Every kind of item that a turn may leave. */
const ITEMS: Record<string, StreamEventPayload[]> = {
  'a text': [open('a'), delta('a', 'Half')],
  'a text that began with its start': [open('a', { initial_content: 'Half' })],
  'a thought': [open('a', { item_type: 'reasoning' }), delta('a', 'Half')],
  'an empty text': [open('a')],
  'an open call': [UNFINISHED_CALL, delta('c', '{"a')],
  'a call of the server': call('c', 'slow'),
  'a call of the provider': call('c', 'web_search', { provider_metadata: VENDORS }),
  'a call for the client': call('c', 'ask'),
}

type Ending = (rig: Rig) => Promise<unknown>
const END_ROUND: Ending = async (rig) => {
  const { say, stream } = await rig.provider.called(1)
  say(end('length'))
  stream.complete()
}
const ENDINGS: Record<string, Ending> = {
  cancel: (rig) => rig.runner.cancel('r', 'enough'),
  shutdown: (rig) => {
    void rig.runner.shutdown(0)
    return rig.clock.advance(0)
  },
  'an error of the provider': async (rig) => {
    ;(await rig.provider.called(1)).say(broken('HTTP_500'))
  },
  'a provider that throws': async (rig) => {
    ;(await rig.provider.called(1)).stream.error(new Error('gone'))
  },
  'the time limit': (rig) => rig.clock.advance(60_000),
  'the token limit': END_ROUND,
}

type Row = readonly [what: string, how: string, ended: object, shown: object | undefined]
const done = (content: string) => ({
  type: 'item_done',
  final_item: { content },
  finish_reason: 'cancelled',
})
const cut = (content: string) => ({ status: 'complete', content, finishReason: 'cancelled' })
const error = (code: string) => ({ type: 'item_error', error: { code } })
const failed = (errorCode: string) => ({ status: 'error', errorCode })
const FAILURES = [
  ['shutdown', 'SERVER_SHUTDOWN'],
  ['an error of the provider', 'HTTP_500'],
  ['a provider that throws', 'STREAM_ERROR'],
  ['the time limit', 'TURN_TIME_LIMIT'],
] as const

const rows: Row[] = [
  ['a text', 'cancel', done('Half'), cut('Half')],
  ['a text that began with its start', 'cancel', done('Half'), cut('Half')],
  ['a thought', 'cancel', done('Half'), cut('Half')],
  ['an empty text', 'cancel', { type: 'item_cancelled', reason: 'enough' }, undefined],
  ['an open call', 'cancel', error('ITEM_CANCELLED'), failed('ITEM_CANCELLED')],
  ['a call of the server', 'cancel', error('ITEM_CANCELLED'), failed('ITEM_CANCELLED')],
  ['a call of the provider', 'cancel', error('ITEM_CANCELLED'), failed('ITEM_CANCELLED')],
  ['a call for the client', 'cancel', { type: 'item_done' }, { status: 'create' }],
  ['a text', 'the token limit', error('UPSTREAM_TRUNCATED'), failed('UPSTREAM_TRUNCATED')],
  ['a call of the server', 'the token limit', error('ITEM_CANCELLED'), failed('ITEM_CANCELLED')],
  ['a call of the provider', 'the token limit', error('ITEM_CANCELLED'), failed('ITEM_CANCELLED')],
  ['a call for the client', 'the token limit', { type: 'item_done' }, { status: 'create' }],
  ...FAILURES.flatMap(([how, code]): Row[] => [
    ['a text', how, error(code), { ...failed(code), content: 'Half' }],
    ['a thought', how, error(code), { ...failed(code), content: 'Half' }],
    ['an empty text', how, error(code), { ...failed(code), content: '' }],
    ['an open call', how, error(code), { ...failed(code), content: '{"a' }],
    ['a call of the server', how, error(code), failed(code)],
    ['a call of the provider', how, error(code), failed(code)],
    ['a call for the client', how, { type: 'item_done' }, { status: 'create' }],
  ]),
]

async function checkItem(rig: Rig, ended: object, shown: object | undefined): Promise<void> {
  const payloads = (await payloadsOf(rig.log)).filter(
    (payload) => 'item_id' in payload && payload.item_id === 'r:1',
  )
  expect(payloads.at(-1)).toMatchObject(ended)
  const outputs = (await outputsOf(rig.log)).filter(
    (output): output is ItemSnapshot => 'itemId' in output && output.itemId === 'r:1',
  )
  if (shown === undefined) expect(outputs).toEqual([])
  else expect(outputs.at(-1)).toMatchObject(shown)
  checkSettled(await readLog(rig.log, 'r', 'events'))
  checkSnapshotSettled(await readLog(rig.log, 'r', 'processed'))
  expect(await rig.log.getTurn('r')).toMatchObject({ sealed: true })
}

describe('V6 an item left open by its turn', () => {
  test.each(rows)('%s at %s', async (what, how, ended, shown) => {
    const rig = newRig({
      rounds: [({ say }) => say(...ITEMS[what]!)],
      tools: TOOLS,
      caps: { maxTurnTimeMs: 60_000 },
    })
    await rig.submit()
    await tick(rig.clock)
    await ENDINGS[how]!(rig)
    await rig.settled()
    await checkItem(rig, ended, shown)
  })

  test.each(Object.keys(ITEMS))('%s when its process dies', async (what) => {
    const clock = fakeClock(1_000_000)
    const log = new HookedLog({ clock })
    const rig = newRig({ log, clock, rounds: [({ say }) => say(...ITEMS[what]!)], tools: TOOLS })
    await rig.submit()
    await tick(rig.clock)
    log.renew = () => new Promise(() => {})
    const append = log.append.bind(log)
    log.append = (lease, ...rest) =>
      lease.epoch === 1 ? new Promise(() => {}) : append(lease, ...rest)
    await rig.clock.advance(LEASE_MS)
    expect(await endOrphan(rig.log, 'r', { owner: 'another', leaseMs: LEASE_MS, clock })).toBe(
      'ended',
    )
    if (what === 'a call for the client') {
      return checkItem(rig, { type: 'item_done' }, { status: 'create' })
    }
    await checkItem(rig, error('PRODUCER_LOST'), failed('PRODUCER_LOST'))
  })

  test('is one of two calls with the same id: both outputs find theirs', async () => {
    const twice = [
      ...call('a', 'web_search', { call_id: 'x', provider_metadata: VENDORS }),
      ...call('b', 'web_search', { call_id: 'x', provider_metadata: VENDORS }),
    ]
    const outputs = ['first', 'second'].map((output): StreamEventPayload => {
      const final_item = {
        type: 'function_call_output',
        id: output,
        call_id: 'x',
        output,
        success: true,
      } as const
      return { type: 'item_done', item_id: output, final_item }
    })
    const rig = newRig({ rounds: [[...twice, ...outputs, end()]] })
    await rig.submit()
    await rig.settled()
    expect((await outputsOf(rig.log)).filter(({ type }) => type === 'tool_call')).toMatchObject([
      { itemId: 'r:1', status: 'complete', toolOutput: 'first' },
      { itemId: 'r:2', status: 'complete', toolOutput: 'second' },
    ])
    checkSettled(await readLog(rig.log, 'r', 'events'))
  })

  test('has only one end, even if its provider continues it', async () => {
    const late: StreamEventPayload[] = [
      delta('a', 'late'),
      { type: 'item_error', item_id: 'a', error: { code: 'X', message: 'late' } },
      { type: 'item_cancelled', item_id: 'a' },
    ]
    const finished: StreamEventPayload[] = [open('a'), delta('a', 'x'), text('a', 'x')]
    const rig = newRig({ rounds: [[...finished, ...late, text('a', 'again'), end()]] })
    await rig.submit()
    await rig.settled()
    checkSettled(await readLog(rig.log, 'r', 'events'))
    expect(rig.errors).toEqual(['ITEM_UNKNOWN'])
  })
})

function text(item_id: string, content: string): StreamEventPayload {
  const final_item = { type: 'message', id: item_id, content, origin: 'agent' } as const
  return { type: 'item_done', item_id, final_item }
}
