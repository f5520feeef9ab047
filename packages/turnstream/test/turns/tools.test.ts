import { describe, expect, test } from 'vitest'
import { isExecutedByProvider } from '../../../core/src/index.ts'
import type { ToolCallContext } from '../../src/server.ts'
import { type CallFields, call, end, open } from './payloads.ts'
import { newRig, outputsOf, payloadsOf, storyOf, tick } from './rig.ts'
import { TOOLS, tool } from './some-tools.ts'

interface Row {
  name: string
  fields?: CallFields
  tool: string
  answer: string
  errors?: string[]
}

const answers: Row[] = [
  { name: 'a number as JSON', tool: 'add', fields: { arguments: '{"a":1,"b":2}' }, answer: '= 3' },
  {
    name: 'an object as JSON',
    tool: 'echo',
    fields: { arguments: '{"a":[1]}' },
    answer: '= {"a":[1]}',
  },
  {
    name: 'a string unchanged',
    tool: 'say',
    fields: { arguments: '{"text":"so"}' },
    answer: '= so',
  },
  { name: 'undefined as an empty text', tool: 'nothing', answer: '= ' },
  {
    name: 'a thrown error as a failure',
    tool: 'fail',
    answer: '! TOOL_FAILED: The tool failed: fail: no such city',
    errors: ['TOOL_FAILED'],
  },
  {
    name: 'a thrown error without secrets',
    tool: 'tell',
    answer:
      '! TOOL_FAILED: The tool failed: tell: asked https://[redacted]@host?key=[redacted] with [redacted]',
    errors: ['TOOL_FAILED'],
  },
  {
    name: 'a rejection as a failure',
    tool: 'reject',
    answer: '! TOOL_FAILED: The tool failed: reject: for no reason',
    errors: ['TOOL_FAILED'],
  },
  {
    name: 'a thrown value without text as a failure',
    tool: 'baffle',
    answer:
      '! TOOL_FAILED: The tool failed: baffle: it threw a value that cannot be converted to text',
    errors: ['TOOL_FAILED'],
  },
  {
    name: 'an error without a usable message as a failure',
    tool: 'mumble',
    answer:
      '! TOOL_FAILED: The tool failed: mumble: it threw a value that cannot be converted to text',
    errors: ['TOOL_FAILED'],
  },
  {
    name: 'malformed JSON arguments as a failure',
    tool: 'echo',
    fields: { arguments: '{"a":' },
    answer: '! TOOL_FAILED: The tool failed: echo: the arguments are not a JSON object',
    errors: ['TOOL_FAILED'],
  },
  {
    name: 'arguments that are not an object as a failure',
    tool: 'echo',
    fields: { arguments: '[1]' },
    answer: '! TOOL_FAILED: The tool failed: echo: the arguments are not a JSON object',
    errors: ['TOOL_FAILED'],
  },
  {
    name: 'too large an output as a failure',
    tool: 'flood',
    answer:
      '! TOOL_FAILED: The tool failed: flood: the output has 1000001 characters; the limit is 1000000',
    errors: ['TOOL_FAILED'],
  },
]

describe('D2 a call to a tool of the server', () => {
  test.each(answers)('is answered: $name', async ({ tool, fields, answer, errors = [] }) => {
    const rounds = [[...call('1', tool, fields), end('tool_calls')], [end()]]
    const rig = newRig({ rounds, tools: TOOLS })
    await rig.submit()
    await rig.settled()
    expect((await storyOf(rig.log)).slice(3)).toEqual([
      'open r:2 function_call_output',
      `done r:2 call-1 ${answer}`,
      'end stop ?',
    ])
    expect(rig.errors).toEqual(errors)
  })

  test('is a failure when the output cannot be serialised', async () => {
    const rounds = [[...call('1', 'circle'), end('tool_calls')], [end()]]
    const rig = newRig({ rounds, tools: TOOLS })
    await rig.submit()
    await rig.settled()
    expect((await storyOf(rig.log))[4]).toMatch(/^done r:2 call-1 ! TOOL_FAILED: .*circular/)
  })

  test('is a failure when the tool times out, and its signal aborts', async () => {
    let signal: AbortSignal | undefined
    const slow = tool('slow', (_args, context) => {
      signal = context.signal
      return new Promise(() => {})
    })
    const rounds = [[...call('1', 'slow'), end('tool_calls')], [end()]]
    const rig = newRig({ rounds, tools: [slow] })
    await rig.submit()
    await rig.clock.advance(59_999)
    expect(signal?.aborted).toBe(false)
    await rig.clock.advance(1)
    expect(signal?.aborted).toBe(true)
    await rig.settled()
    expect((await storyOf(rig.log)).slice(4)).toEqual([
      'done r:2 call-1 ! TOOL_TIMEOUT: The tool timed out: slow did not answer within 60000 ms',
      'end stop ?',
    ])
    expect(rig.errors).toEqual(['TOOL_TIMEOUT'])
  })

  test('has the timeout of the tool', async () => {
    const slow = tool('slow', () => new Promise(() => {}), { timeoutMs: 5 })
    const rig = newRig({ rounds: [[...call('1', 'slow'), end()], [end()]], tools: [slow] })
    await rig.submit()
    await rig.clock.advance(5)
    await rig.settled()
    expect(rig.errors).toEqual(['TOOL_TIMEOUT'])
  })

  test.each([{ needsApproval: false }, { needsApproval: true }])(
    'is a failure when its arguments cannot be checked in time: %j',
    async (approval) => {
      const parameters = { properties: { a: { type: 'string', pattern: '^(a+)+$' } } }
      const strict = tool('strict', () => 'ran', { parameters, ...approval })
      const fields = { arguments: `{"a":"${'a'.repeat(100)}!"}` }
      const rounds = [[...call('1', 'strict', fields), end('tool_calls')], [end()]]
      const rig = newRig({ rounds, tools: [strict] })
      await rig.submit()
      await rig.settled()
      expect((await storyOf(rig.log)).slice(4)).toEqual([
        'done r:2 call-1 ! TOOL_TIMEOUT: The tool timed out: the arguments were not checked within 1000 ms',
        'end stop ?',
      ])
      expect(rig.errors).toEqual(['TOOL_TIMEOUT'])
    },
  )

  test("passes the turn's ids to the tool", async () => {
    const contexts: ToolCallContext[] = []
    const noting = tool('note', (_args, context) => contexts.push(context))
    const rig = newRig({ rounds: [[...call('1', 'note'), end()], [end()]], tools: [noting] })
    await rig.submit({ turnId: 't', threadId: 'h' })
    await rig.settled()
    expect(contexts).toMatchObject([{ turnId: 't', threadId: 'h', callId: 'call-1' }])
    expect(contexts[0]?.signal.aborted).toBe(false)
  })

  test('is marked from its start as server-run, and so is its output', async () => {
    const rounds = [
      [...call('1', 'echo', { provider_metadata: { vendor: { id: 7 } } }), end()],
      [end()],
    ]
    const rig = newRig({ rounds, tools: TOOLS })
    await rig.submit()
    await rig.settled()
    const payloads = await payloadsOf(rig.log)
    const started = payloads.find((each) => each.type === 'item_start' && each.name === 'echo')
    const finals = payloads.flatMap((each) => (each.type === 'item_done' ? [each.final_item] : []))
    const marked = [started, ...finals.slice(1)] as {
      provider_metadata?: Record<string, unknown>
    }[]
    expect(marked.map((each) => isExecutedByProvider(each.provider_metadata))).toEqual([
      true,
      true,
      true,
    ])
    expect(marked[0]?.provider_metadata).toMatchObject({ vendor: { id: 7 } })
  })

  test('is marked at its end when its name arrives late', async () => {
    const [, ...rest] = call('1', 'echo')
    const start = open('1', { item_type: 'function_call' })
    const rig = newRig({ rounds: [[start, ...rest, end()], [end()]], tools: TOOLS })
    await rig.submit()
    await rig.settled()
    const done = (await payloadsOf(rig.log)).findLast(
      (each) => each.type === 'item_done' && each.final_item.type === 'function_call',
    )
    expect(done).toMatchObject({ final_item: { provider_metadata: { executed_by: 'provider' } } })
  })

  test('runs in parallel with the others of its round', async () => {
    const waiting = new Map<string, (output: string) => void>()
    const wait = tool('wait', (_args, { callId }) => {
      return new Promise((resolve) => {
        waiting.set(callId, resolve)
      })
    })
    const rounds = [[...call('1', 'wait'), ...call('2', 'wait'), end('tool_calls')], [end()]]
    const rig = newRig({ rounds, tools: [wait] })
    await rig.submit()
    await rig.clock.advance(1)
    expect([...waiting.keys()]).toEqual(['call-1', 'call-2'])
    waiting.get('call-2')?.('two')
    await tick(rig.clock)
    expect((await storyOf(rig.log)).at(-1)).toBe('done r:3 call-2 = two')
    expect(rig.provider.calls).toHaveLength(1)
    waiting.get('call-1')?.('one')
    await rig.settled()
    expect((await storyOf(rig.log)).slice(-3)).toEqual([
      'open r:4 function_call_output',
      'done r:4 call-1 = one',
      'end stop ?',
    ])
  })

  test('emits one complete tool call', async () => {
    const rounds = [[...call('1', 'say', { arguments: '{"text":"so"}' }), end()], [end()]]
    const rig = newRig({ rounds, tools: TOOLS })
    await rig.submit()
    await rig.settled()
    const calls = (await outputsOf(rig.log)).filter(({ type }) => type === 'tool_call')
    expect(calls).toMatchObject([
      { itemId: 'r:1', status: 'complete', toolName: 'say', toolOutput: 'so', success: true },
    ])
  })

  test('is distinguished from the same id in the previous round', async () => {
    const same = (text: string) => ({ call_id: 'call_0', arguments: JSON.stringify({ text }) })
    const rounds = [
      [...call('1', 'say', same('one')), end()],
      [...call('1', 'say', same('two')), end()],
      [end()],
    ]
    const rig = newRig({ rounds, tools: TOOLS })
    await rig.submit()
    await rig.settled()
    const shown = (await outputsOf(rig.log)).filter(({ type }) => type === 'tool_call')
    expect(shown).toMatchObject([
      { itemId: 'r:1', toolOutput: 'one' },
      { itemId: 'r:3', toolOutput: 'two' },
    ])
  })

  test('is distinguished from a client output for the same id of an earlier turn', async () => {
    const rounds = [[...call('1', 'ask_user', { call_id: 'call_0' }), end('tool_calls')]]
    const rig = newRig({ rounds, tools: TOOLS })
    const old = { type: 'function_call_output', call_id: 'call_0', output: 'old', success: true }
    await rig.submit({ input: [old as never] }, { acceptsAnyOutput: true })
    await rig.settled()
    const shown = (await outputsOf(rig.log)).filter(({ type }) => type === 'tool_call')
    expect(shown).toMatchObject([{ itemId: 'r:1', status: 'create' }])
    expect(rig.errors).toEqual([])
  })
})
