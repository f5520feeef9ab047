import { describe, expect, test } from 'vitest'
import {
  ResponseStreamError,
  type StreamEventPayload,
  TurnstreamError,
} from '../../../core/src/index.ts'
import { answer, broken, call, delta, done, end, open, usage, used } from './payloads.ts'
import { newRig, outputsOf, payloadsOf, type Round, storyOf } from './rig.ts'

interface Row {
  name: string
  round: Round
  story: string[]
  errors?: string[]
}

/** Something that a provider in plain JavaScript may send. */
function raw(value: unknown): Round {
  return ({ stream, say }) => {
    say(...answer('a', 'x'))
    stream.addEvent(value as StreamEventPayload)
    stream.complete()
  }
}

const SAID = ['open r:1 message', 'r:1 + x', 'done r:1 x']

const rows: Row[] = [
  {
    name: 'ends without its end',
    round: answer('a', 'x'),
    story: [...SAID, 'end UPSTREAM_TRUNCATED'],
  },
  {
    name: 'ends in the middle of an item',
    round: [used(usage(1, 1)), open('a'), delta('a', 'x')],
    story: [
      'usage 2',
      'open r:1 message',
      'r:1 + x',
      'error r:1 UPSTREAM_TRUNCATED',
      'end UPSTREAM_TRUNCATED',
    ],
  },
  { name: 'sends nothing at all', round: [], story: ['end UPSTREAM_TRUNCATED'] },
  {
    name: 'continues after its end',
    round: [...answer('a', 'x'), end(), ...answer('b', 'y'), broken('LATE')],
    story: [...SAID, 'end stop ?'],
  },
  {
    name: 'never closes its stream after its end',
    round: ({ say }) => say(...answer('a', 'x'), end()),
    story: [...SAID, 'end stop ?'],
  },
  {
    name: 'ends with items open',
    round: [open('a'), delta('a', 'x'), end('stop')],
    story: ['open r:1 message', 'r:1 + x', 'error r:1 UPSTREAM_TRUNCATED', 'end stop ?'],
  },
  {
    name: 'fails with items open',
    round: [open('a'), delta('a', 'x'), open('b'), broken('HTTP_529')],
    story: [
      'open r:1 message',
      'r:1 + x',
      'open r:2 message',
      'error r:1 HTTP_529',
      'error r:2 HTTP_529',
      'end HTTP_529',
    ],
  },
  {
    name: 'reports an abort, with an item open',
    round: [open('a'), { type: 'turn_aborted_by_user', turn_id: 'v', reason: 'there' }],
    story: ['open r:1 message', 'cancelled r:1 there', 'aborted there'],
  },
  {
    name: 'reports an error with usage',
    round: [used(usage(5, 6)), broken('HTTP_500')],
    story: ['usage 11', 'end HTTP_500'],
  },
  {
    name: 'throws instead of answering',
    round: () => {
      throw new Error('secret')
    },
    story: ['end STREAM_ERROR'],
    errors: ['secret'],
  },
  {
    name: 'throws an error of ours instead of answering',
    round: () => {
      throw new TurnstreamError('OPTION_INVALID', 'model')
    },
    story: ['end OPTION_INVALID'],
    errors: ['OPTION_INVALID'],
  },
  {
    name: 'throws in the middle',
    round: ({ say, stream }) => {
      say(open('a'), delta('a', 'x'))
      stream.error(new Error('secret'))
    },
    story: ['open r:1 message', 'r:1 + x', 'error r:1 STREAM_ERROR', 'end STREAM_ERROR'],
    errors: ['STREAM_ERROR'],
  },
  {
    name: 'throws an error of ours in the middle',
    round: ({ say, stream }) => {
      say(...answer('a', 'x'))
      stream.error(new TurnstreamError('UPSTREAM_UNREACHABLE', 'gone'))
    },
    story: [...SAID, 'end UPSTREAM_UNREACHABLE'],
    errors: ['STREAM_ERROR'],
  },
  {
    name: 'times out by its own limit',
    round: ({ stream }) => {
      stream.error(new ResponseStreamError('Event timeout after 1ms', 'TIMEOUT'))
    },
    story: ['end UPSTREAM_TIMEOUT'],
    errors: ['STREAM_ERROR'],
  },
  {
    name: 'aborts its own stream',
    round: ({ stream }) => stream.abort(),
    story: ['end ABORTED'],
    errors: ['ABORTED'],
  },
  {
    name: 'sends something that is not an event',
    round: raw(null),
    story: [...SAID, 'end STREAM_ERROR'],
    errors: ['Cannot read properties of null'],
  },
  {
    name: 'sends an event without its type',
    round: raw({ item_id: 'a' }),
    story: [...SAID, 'end UPSTREAM_MALFORMED'],
  },
  {
    name: 'sends an event without its fields',
    round: raw({ type: 'item_done', item_id: 'a' }),
    story: [...SAID, 'end UPSTREAM_MALFORMED'],
  },
  {
    name: 'sends a delta without text',
    round: raw({ type: 'item_delta', item_id: 'a' }),
    story: [...SAID, 'end UPSTREAM_MALFORMED'],
  },
  {
    name: 'sends a value that JSON cannot represent',
    round: raw(open('b', { provider_metadata: { big: 1n } })),
    story: [...SAID, 'end STREAM_ERROR'],
    errors: ['Do not know how to serialize a BigInt'],
  },
  {
    name: 'sends an event of a later version',
    round: [...answer('a', 'x'), { type: 'item_sparkle', item_id: 'a' } as never, end()],
    story: [...SAID, 'end stop ?'],
  },
  {
    name: 'adds to an item that it did not start',
    round: [delta('a', 'x'), end()],
    story: ['end stop ?'],
    errors: ['ITEM_UNKNOWN'],
  },
  {
    name: 'finishes an item that it did not start',
    round: [done('a', 'x'), end()],
    story: ['done r:1 x', 'end stop ?'],
  },
  {
    name: 'starts an item twice',
    round: [open('a'), open('a'), done('a', 'x'), end()],
    story: [
      'open r:1 message',
      'open r:2 message',
      'done r:2 x',
      'error r:1 UPSTREAM_TRUNCATED',
      'end stop ?',
    ],
  },
]

describe('a provider that', () => {
  test.each(rows)(
    '$name gives a turn with one correct end',
    async ({ round, story, errors = [] }) => {
      const rig = newRig({ rounds: [round] })
      await rig.submit()
      await rig.settled()
      expect(await storyOf(rig.log)).toEqual(story)
      const outputs = await outputsOf(rig.log)
      expect(outputs.at(-1)?.type).toMatch(/^turn_(?:complete|error)$/)
      expect(await rig.log.getTurn('r')).toMatchObject({ sealed: true })
      expect(rig.errors).toEqual(errors.map((error) => expect.stringContaining(error)))
      expect(rig.provider.calls[0]?.signal.aborted).toBe(true)
    },
  )

  test('throws does not expose its message to readers', async () => {
    const round: Round = () => {
      throw new Error('key sk-123')
    }
    const rig = newRig({ rounds: [round] })
    await rig.submit()
    await rig.settled()
    expect(JSON.stringify(await payloadsOf(rig.log))).not.toContain('sk-123')
  })

  test('fails in a later round keeps the earlier rounds', async () => {
    const tools = [{ name: 'add', parameters: {}, execute: () => 'added' }]
    const rounds = [
      [used(usage(1, 1)), ...call('1', 'add'), end()],
      [used(usage(2, 2)), broken('HTTP_500')],
    ]
    const rig = newRig({ rounds, tools })
    await rig.submit()
    await rig.settled()
    expect((await storyOf(rig.log)).slice(-4)).toEqual([
      'open r:2 function_call_output',
      'done r:2 call-1 = added',
      'usage 6',
      'end HTTP_500',
    ])
  })
})
