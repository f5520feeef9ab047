import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { StreamEventPayload } from '../../../core/src/index.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { answer, broken, call, delta, end, line, open } from './payloads.ts'
import { type Call, newRig, payloadsOf, type Round } from './rig.ts'
import { TOOLS, tool } from './some-tools.ts'

const CLIENT_TOOL = { name: 'ask_user', parameters: {} }

/** A call that the provider says it ran itself. */
const VENDORS = { provider_metadata: { executed_by: 'provider', vendor: { block: 1 } } }

describe('D2 the rounds of a turn', () => {
  test('each see the output and results of earlier rounds', async () => {
    const rounds = [
      [...answer('1', 'Let me see'), ...call('2', 'add', { arguments: '{"a":1,"b":1}' }), end()],
      [...call('1', 'say', { arguments: '{"text":"so"}' }), end()],
      [...answer('1', 'Two'), end()],
    ]
    const { provider, submit, settled } = newRig({ rounds, tools: TOOLS })
    await submit()
    await settled()
    const prompt = { type: 'message', id: 'r-user-prompt', content: 'Hi', origin: 'user' }
    const first = [
      { type: 'message', id: 'r:1', content: 'Let me see', origin: 'agent' },
      {
        type: 'function_call',
        id: 'r:2',
        name: 'add',
        arguments: '{"a":1,"b":1}',
        call_id: 'call-2',
      },
      { type: 'function_call_output', id: 'r:3', call_id: 'call-2', output: '2', success: true },
    ]
    const second = [
      {
        type: 'function_call',
        id: 'r:4',
        name: 'say',
        arguments: '{"text":"so"}',
        call_id: 'call-1',
      },
      { type: 'function_call_output', id: 'r:5', call_id: 'call-1', output: 'so', success: true },
    ]
    expect(provider.calls.map(({ request }) => request.input)).toEqual([
      [prompt],
      [prompt, ...first],
      [prompt, ...first, ...second],
    ])
  })

  test('give the provider the ids of its items', async () => {
    const ids: string[][] = []
    const take = ({ run, say, stream }: Call, write: (id: string) => StreamEventPayload[]) => {
      const own = [run.nextItemId?.() ?? '', run.nextItemId?.() ?? '']
      ids.push(own)
      say(...write(own[0] ?? ''), end())
      stream.complete()
    }
    const rounds: Round[] = [
      (each) => take(each, (id) => call(id, 'say', { arguments: '{"text":"so"}' })),
      (each) => take(each, (id) => answer(id, 'So')),
    ]
    const { log, submit, settled } = newRig({ rounds, tools: TOOLS })
    await submit()
    await settled()
    expect(ids).toEqual([
      ['r:1', 'r:2'],
      ['r:3', 'r:4'],
    ])
    expect(await payloadsOf(log)).toContainEqual(delta('r:3', 'So'))
  })

  test('keep the order in which items began, and the metadata of the vendor', async () => {
    const signed = { provider_metadata: { vendor: { signature: 'sig' } } }
    const [open1, delta1, done1] = call('1', 'say', { arguments: '{"text":"a"}', ...signed })
    const [open2, delta2, done2] = call('2', 'say', { arguments: '{"text":"b"}' })
    const rounds = [[open1, open2, delta2, done2, delta1, done1, end()], [end()]] as Round[]
    const { provider, submit, settled } = newRig({ rounds, tools: TOOLS })
    await submit()
    await settled()
    const [, one, two] = provider.calls[1]?.request.input ?? []
    expect([one, two]).toMatchObject([{ id: 'r:1', ...signed }, { id: 'r:2' }])
  })

  test('have their own run ids, so that derived ids differ', async () => {
    const rounds = [[...call('1', 'echo'), end()], [...call('1', 'echo'), end()], [end()]]
    const { provider, submit, settled } = newRig({ rounds, tools: TOOLS })
    await submit({ turnId: 't', runId: 'r', threadId: 'h' })
    await settled()
    expect(provider.calls.map(({ run }) => [run.runId, run.turnId, run.threadId])).toEqual([
      ['r', 't', 'h'],
      ['r-2', 't', 'h'],
      ['r-3', 't', 'h'],
    ])
  })

  test('offer the tools of the server and those of the request', async () => {
    const { provider, submit, settled } = newRig({ rounds: [[end()]], tools: TOOLS.slice(0, 1) })
    await submit({ settings: { tools: [CLIENT_TOOL] } })
    await settled()
    expect(provider.calls[0]?.request.tools).toEqual([
      { name: 'add', parameters: { type: 'object' } },
      CLIENT_TOOL,
    ])
  })

  const choices = [
    { toolChoice: 'required', later: 'auto' },
    { toolChoice: { name: 'echo' }, later: 'auto' },
    { toolChoice: 'auto', later: 'auto' },
    { toolChoice: 'none', later: 'none' },
  ] as const
  test.each(choices)(
    'are forced to call a tool only once: $toolChoice',
    async ({ toolChoice, later }) => {
      const { provider, submit, settled } = newRig({
        rounds: [[...call('1', 'echo'), end()], [end()]],
        tools: TOOLS,
      })
      await submit({ settings: { toolChoice } })
      await settled()
      const asked = provider.calls.map(({ request }) => request.toolChoice)
      expect(asked).toEqual([toolChoice, later])
    },
  )
})

const endings: { name: string; round: Round; story: string[]; asked: number }[] = [
  {
    name: 'a call to a tool of the request ends the turn',
    round: [...call('1', 'ask_user'), end('tool_calls')],
    story: ['end tool_calls ?'],
    asked: 1,
  },
  {
    name: 'a call to a tool of the request ends the turn, even if the provider says stop',
    round: [...call('1', 'ask_user'), end('stop')],
    story: ['end tool_calls ?'],
    asked: 1,
  },
  {
    name: 'a call to a tool of the request does not hide that the response was cut off',
    round: [...call('1', 'ask_user'), end('length')],
    story: ['end length ?'],
    asked: 1,
  },
  {
    name: 'a call to a server tool runs, even if the provider says stop',
    round: [...call('1', 'nothing'), end('stop')],
    story: ['open r:2 function_call_output', 'done r:2 call-1 = ', 'end stop ?'],
    asked: 2,
  },
  {
    name: 'with both kinds, server tools run first and then the turn ends',
    round: [...call('1', 'ask_user'), ...call('2', 'nothing'), end('tool_calls')],
    story: ['open r:3 function_call_output', 'done r:3 call-2 = ', 'end tool_calls ?'],
    asked: 1,
  },
  {
    name: 'a call that its provider ran is left alone',
    round: [...call('1', 'nothing', VENDORS), end('stop')],
    story: ['end stop ?'],
    asked: 1,
  },
  {
    name: 'a call that its provider answered is left alone',
    round: [
      ...call('1', 'nothing'),
      {
        type: 'item_done',
        item_id: '2',
        final_item: {
          type: 'function_call_output',
          id: '2',
          call_id: 'call-1',
          output: 'by the vendor',
          success: true,
        },
      },
      end('stop'),
    ],
    story: ['done r:2 call-1 = by the vendor', 'end stop ?'],
    asked: 1,
  },
  {
    name: 'a call is not run when the response was cut off',
    round: [...call('1', 'nothing'), end('length')],
    story: ['end length ?'],
    asked: 1,
  },
  {
    name: 'a call is not run when the response was filtered',
    round: [...call('1', 'nothing'), end('content_filter')],
    story: ['end content_filter ?'],
    asked: 1,
  },
  {
    name: 'a call is not run when the round failed',
    round: [...call('1', 'nothing'), broken('HTTP_500')],
    story: ['end HTTP_500'],
    asked: 1,
  },
  {
    name: 'a call is not run when the response has status error',
    round: [...call('1', 'nothing'), end({ status: 'error' })],
    story: ['end stop ?'],
    asked: 1,
  },
  {
    name: 'a failed call is not run',
    round: [
      ...call('1', 'nothing'),
      { type: 'item_error', item_id: '1', error: { code: 'X', message: 'x' } },
      end('stop'),
    ],
    story: ['error r:1 X', 'end stop ?'],
    asked: 1,
  },
  {
    name: 'a call without its end is not run',
    round: [
      open('1', { item_type: 'function_call', name: 'nothing', call_id: 'c' }),
      delta('1', '{'),
      end('stop'),
    ],
    story: ['error r:1 UPSTREAM_TRUNCATED', 'end stop ?'],
    asked: 1,
  },
]

describe('D2 which calls are run', () => {
  test.each(endings)('$name', async ({ round, story, asked }) => {
    const rig = newRig({ rounds: [round, [end()]], tools: TOOLS })
    await rig.submit({ settings: { tools: [CLIENT_TOOL] } })
    await rig.settled()
    expect((await payloadsOf(rig.log)).map(line).slice(-story.length)).toEqual(story)
    expect(rig.provider.calls).toHaveLength(asked)
  })

  test('a request tool may not have the name of a server tool', async () => {
    const rig = newRig({ tools: TOOLS })
    const refused = rig.submit({ settings: { tools: [{ name: 'add', parameters: {} }] } })
    await expect(refused).rejects.toMatchObject({ code: 'REQUEST_INVALID' })
    expect(await rig.log.getTurn('r')).toBeUndefined()
  })

  test('two server tools may not have the same name', () => {
    const twice = [...TOOLS, ...TOOLS]
    expect(() => newRig({ tools: twice })).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    )
  })
})

test('a tool runs only when its call is durable', async () => {
  const clock = fakeClock(1_000_000)
  let release = (): void => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  class SlowLog extends HookedLog {
    override async append(...args: Parameters<HookedLog['append']>): Promise<string> {
      const [, , records] = args
      if (records.some(({ data }) => data.includes('"item_done"') && data.includes('note')))
        await held
      return super.append(...args)
    }
  }
  let runs = 0
  const note = tool('note', () => {
    runs += 1
  })
  const rounds = [[...call('1', 'note'), end()], [end()]]
  const rig = newRig({ rounds, tools: [note], clock, log: new SlowLog({ clock }) })
  await rig.submit()
  await clock.advance(100)
  expect(runs).toBe(0)
  release()
  await rig.settled()
  expect(runs).toBe(1)
})
