import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import {
  type OutputItem,
  type StreamEventPayload,
  TurnstreamError,
} from '../../../core/src/index.ts'
import type { LogName, LogRecord, Tail } from '../../../core/src/log/turn-log.ts'
import { MemoryLog } from '../../src/server.ts'
import { OldLog } from './old-log.ts'
import { answer, broken, call, delta, end, open } from './payloads.ts'
import { enveloped, newRig, type Rig, type Round, storyOf, tick } from './rig.ts'

/** What the provider was given in its last call, each item as a line. */
function given({ provider }: Rig): string[] {
  return (provider.calls.at(-1)?.request.input ?? []).map(lineOf)
}

function lineOf(item: OutputItem): string {
  const state = 'error' in item ? ' (broken)' : 'cancelled' in item ? ' (cancelled)' : ''
  switch (item.type) {
    case 'message':
      return `${item.origin}: ${item.content}${state}`
    case 'reasoning':
      return `thinks: ${item.content}${state}`
    case 'function_call':
      return `calls ${item.name} as ${item.call_id}${state}`
    case 'function_call_output':
      return `${item.call_id} gives ${item.output}`
    default:
      return item.type
  }
}

function user(content: string) {
  return { type: 'message', origin: 'user', content } as const
}

async function talk(rig: Rig, prompts: readonly string[]): Promise<void> {
  for (const [index, prompt] of prompts.entries()) {
    await rig.submit({ runId: `run-${index + 1}`, threadId: 'h', input: [user(prompt)] })
    await tick(rig.clock)
  }
  await rig.settled()
}

const earlier: { name: string; round: Round; items: string[] }[] = [
  { name: 'that is complete', round: [...answer('a', 'So'), end()], items: ['agent: So'] },
  {
    name: 'that failed in the middle of an item',
    round: [open('a'), delta('a', 'So '), delta('a', 'far'), broken('HTTP_500')],
    items: ['agent: So far (broken)'],
  },
  {
    name: 'that has a call without an answer, but not the call',
    round: [...answer('a', 'So'), ...call('c', 'ask'), end('tool_calls')],
    items: ['agent: So'],
  },
  {
    name: 'that failed in the middle of a call',
    round: [
      open('c', { item_type: 'function_call', name: 'ask', call_id: 'x' }),
      delta('c', '{"a'),
      broken('X'),
    ],
    items: [],
  },
  { name: 'without output', round: [end()], items: [] },
]

describe('the history of a thread', () => {
  test.each(earlier)('holds a turn $name', async ({ round, items }) => {
    const rig = newRig({ rounds: [round, [end()]] })
    await talk(rig, ['One', 'Two'])
    expect(given(rig)).toEqual(['user: One', ...items, 'user: Two'])
  })

  test.each(earlier)('holds a turn of an earlier version $name', async ({ round, items }) => {
    const rig = newRig({ log: new OldLog(), rounds: [round, [end()]] })
    await talk(rig, ['One', 'Two'])
    expect(given(rig)).toEqual(['user: One', ...items, 'user: Two'])
  })

  test('holds all turns, oldest first', async () => {
    const rig = newRig({
      rounds: [1, 2, 3].map((each) => [...answer('a', `Answer ${each}`), end()]),
    })
    await talk(rig, ['One', 'Two', 'Three'])
    expect(given(rig)).toEqual([
      'user: One',
      'agent: Answer 1',
      'user: Two',
      'agent: Answer 2',
      'user: Three',
    ])
  })

  test('holds more turns than fit on a page', async () => {
    const count = 203
    const rig = newRig({ rounds: Array.from({ length: count }, () => [end()]) })
    await talk(
      rig,
      Array.from({ length: count }, (_, index) => `${index}`),
    )
    expect(given(rig)).toEqual(Array.from({ length: count }, (_, index) => `user: ${index}`))
  })

  test('holds a cancelled turn with its partial text', async () => {
    const rig = newRig({ rounds: [({ say }) => say(open('a'), delta('a', 'Half')), [end()]] })
    await rig.submit({ runId: 'one', threadId: 'h', input: [user('One')] })
    await tick(rig.clock)
    await rig.runner.cancel('one', 'enough')
    await rig.settled()
    await talk(rig, ['Two'])
    expect(given(rig)).toEqual(['user: One', 'agent: Half', 'user: Two'])
  })

  test('holds a turn whose process died, without its partial call', async () => {
    const rig = newRig({ rounds: [[end()]] })
    const lease = await rig.log.create({ turnId: 'dead', threadId: 'h', owner: 'dead' }, 1000)
    const payloads: StreamEventPayload[] = [
      open('dead:1'),
      delta('dead:1', 'Half'),
      open('dead:2', { item_type: 'function_call', name: 'ask', call_id: 'x' }),
      delta('dead:2', '{"a'),
    ]
    const records = payloads.map((payload, index) => {
      const event_id = `00000000-0000-8000-a000-00000000000${index}`
      return { seq: index + 1, data: JSON.stringify({ ...enveloped(payload), event_id }) }
    })
    await appendTo(rig.log, lease, 'events', records)
    await rig.clock.advance(1000)
    await rig.runner.start()
    await talk(rig, ['Two'])
    expect(given(rig)).toEqual(['agent: Half (broken)', 'user: Two'])
    await rig.runner.shutdown(0)
  })

  test('holds the answers of the client behind the calls of the turn before', async () => {
    const rig = newRig({ rounds: [[...call('c', 'ask'), end('tool_calls')], [end()]] })
    await talk(rig, ['One'])
    const output = {
      type: 'function_call_output',
      call_id: 'call-c',
      output: 'yes',
      success: true,
    } as const
    await rig.submit({ runId: 'two', threadId: 'h', input: [output, user('Two')] })
    await rig.settled()
    expect(given(rig)).toEqual([
      'user: One',
      'calls ask as call-c',
      'call-c gives yes',
      'user: Two',
    ])
  })

  test('keeps what vendors added to their items', async () => {
    const provider_metadata = { vendor: { signature: 'sig', nested: { deep: [1] } } }
    const thought = {
      type: 'item_done',
      item_id: 't',
      final_item: { type: 'reasoning', id: 't', content: '', provider_metadata },
    } as const
    const rig = newRig({
      rounds: [[open('t', { item_type: 'reasoning' }), thought, end()], [end()]],
    })
    await talk(rig, ['One', 'Two'])
    expect(rig.provider.calls[1]?.request.input[1]).toEqual({
      type: 'reasoning',
      id: 'run-1:1',
      content: '',
      provider_metadata,
    })
  })

  test('skips turns whose logs have expired, and the answers to their calls', async () => {
    const clock = fakeClock()
    const log = new MemoryLog({ clock, retentionMs: 10_000 })
    const rig = newRig({
      log,
      clock,
      rounds: [[...call('c', 'ask'), end('tool_calls')], [end()], [end()]],
    })
    await talk(rig, ['One'])
    await clock.advance(6000)
    const output = {
      type: 'function_call_output',
      call_id: 'call-c',
      output: 'yes',
      success: true,
    } as const
    await rig.submit({ runId: 'two', threadId: 'h', input: [output, user('Two')] })
    await rig.settled()
    await clock.advance(6000)
    await rig.submit({ runId: 'three', threadId: 'h', input: [user('Three')] })
    await rig.settled()
    expect(given(rig)).toEqual(['user: Two', 'user: Three'])
  })

  test('has a gap where content was deleted early, whatever its size, and the turns before it', async () => {
    const clock = fakeClock()
    const log = new MemoryLog({ clock })
    const caps = { maxHistoryBytes: 2000 }
    const long = answer('a', 'long '.repeat(1000))
    const rounds = [[...answer('a', 'One'), end()], [...long, end()], [end()], [end()]]
    const rig = newRig({ log, clock, caps, rounds })
    await talk(rig, ['One'])
    await rig.submit({ runId: 'brief', threadId: 'h', input: [user('Two')], contentMs: 1000 })
    await rig.settled()
    await clock.advance(1000)
    await rig.submit({ runId: 'three', threadId: 'h', input: [user('Three')] })
    await rig.settled()
    expect(given(rig)).toEqual(['user: One', 'agent: One', 'user: Three'])
  })

  test.each(['TURN_EXPIRED', 'TURN_DELETED', 'TURN_UNKNOWN'] as const)(
    'skips a turn that is deleted while it is read (%s)',
    async (code) => {
      const log = new (class extends OldLog {
        override tail<Name extends LogName>(
          turnId: string,
          name: Name,
          after: string,
          signal: AbortSignal,
        ): Tail<LogRecord<Name>> {
          if (turnId === 'run-1') throw new TurnstreamError(code, 'run-1')
          return super.tail(turnId, name, after, signal)
        }
      })()
      const rig = newRig({ log, rounds: [[end()], [end()]] })
      await talk(rig, ['One', 'Two'])
      expect(given(rig)).toEqual(['user: Two'])
    },
  )

  test('skips a turn whose Response is deleted before it is read', async () => {
    const log = new (class extends MemoryLog {
      override async getResponse() {
        return undefined
      }
    })()
    const rig = newRig({ log, rounds: [[end()], [end()]] })
    await talk(rig, ['One', 'Two'])
    expect(given(rig)).toEqual(['user: Two'])
  })

  test('that cannot be read ends the turn', async () => {
    const log = new MemoryLog()
    log.listTurns = () => Promise.reject(new TurnstreamError('STORE_CORRUPT', 'unreadable'))
    const rig = newRig({ log })
    await rig.submit()
    await rig.settled()
    expect(await storyOf(log)).toEqual(['end STORE_CORRUPT'])
    expect(rig.errors).toEqual(['STORE_CORRUPT'])
    expect(rig.provider.calls).toEqual([])
  })

  test('that cannot be read does not expose the reason to readers', async () => {
    const log = new MemoryLog()
    log.listTurns = () => Promise.reject(new Error('secret'))
    const rig = newRig({ log })
    await rig.submit()
    await rig.settled()
    expect(await storyOf(log)).toEqual(['end INTERNAL_ERROR'])
    expect(rig.errors).toEqual(['secret'])
  })
})
