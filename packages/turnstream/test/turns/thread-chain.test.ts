import { describe, expect, test } from 'vitest'
import type { HistoryItem } from '../../../core/src/formats/submission.ts'
import { ThreadChain } from '../../src/turns/thread-chain.ts'
import { loopGaps } from '../server/fairness/loop-gap.ts'

const user = (content: string): HistoryItem => ({ type: 'message', origin: 'user', content })
const agent = (content: string): HistoryItem => ({ type: 'message', origin: 'agent', content })
const system = (content: string): HistoryItem => ({ type: 'message', origin: 'system', content })
const reasoning = (content: string): HistoryItem => ({ type: 'reasoning', content })
const call = (call_id: string, args = '{}', name = 'f'): HistoryItem => ({
  type: 'function_call',
  ...{ call_id, name, arguments: args },
})
const output = (call_id: string, text = 'ok'): HistoryItem => ({
  type: 'function_call_output',
  ...{ call_id, output: text, success: true },
})
const file = (data: string): HistoryItem => ({
  ...{ type: 'message', origin: 'user', content: '' },
  attachments: [{ type: 'file', media_type: 'application/pdf', data }],
})

async function keysOf(...items: HistoryItem[]): Promise<string[]> {
  return (await ThreadChain.read(items)).keys
}

const SAID = [user('a'), agent('b'), call('1', '{"x":1,"y":[2]}'), output('1', 'o')]

describe('the same conversation', () => {
  test.each<[string, HistoryItem[]]>([
    ['another system prompt', [system('s'), ...SAID]],
    [
      'reasoning',
      [user('a'), reasoning('r'), agent('b'), call('1', '{"y":[2],"x":1}'), output('1', 'o')],
    ],
    [
      'split texts',
      [
        user(''),
        user('a'),
        agent(''),
        agent('b'),
        call('1', '{ "x": 1.0, "y": [2]}'),
        output('1', 'o'),
      ],
    ],
    ['white space', [user('a'), agent(' \n'), agent('b\n'), ...SAID.slice(2)]],
    ['text after a call', [...SAID.slice(0, 3), agent('lost'), ...SAID.slice(3)]],
    ['a failed output', [...SAID.slice(0, 3), { ...SAID[3], success: false } as HistoryItem]],
  ])('with %s has the same keys', async (_, items) => {
    expect(await keysOf(...items, user('next'))).toEqual(await keysOf(...SAID, user('next')))
  })

  test('has a key for each run of the agent, the newest first', async () => {
    const [first = ''] = await keysOf(user('a'), agent('b'))
    const both = await keysOf(user('a'), agent('b'), user('c'), agent('d'), user('e'))
    expect(both).toHaveLength(2)
    expect(both[1]).toBe(first)
    expect(first).toMatch(/^chain:[\w-]{43}$/)
    expect(await keysOf(user('a'))).toEqual([])
    expect(await keysOf()).toEqual([])
  })

  test('is searched for its last 64 runs only', async () => {
    const items = Array.from({ length: 100 }, (_, turn) => [user(`${turn}`), agent('so')]).flat()
    const keys = await keysOf(...items)
    expect(keys).toHaveLength(64)
    expect(await keysOf(...items, user('next'))).toEqual(keys)
  })

  test('continues an answer that the request begins', async () => {
    const chain = await ThreadChain.read([user('a'), agent('b ')])
    const item = { type: 'message', id: '1', content: 'c', origin: 'agent' } as const
    expect([await chain.answerKey([item])]).toEqual(await keysOf(user('a'), agent('b c')))
  })
})

describe('another conversation', () => {
  test.each<[string, HistoryItem[]]>([
    ['prompt', [user('A'), ...SAID.slice(1)]],
    ['author', [user('ab'), ...SAID.slice(2)]],
    ['answer', [user('a'), agent('B'), ...SAID.slice(2)]],
    ['arguments', [...SAID.slice(0, 2), call('1', '{"x":1,"y":[3]}')]],
    ['tool', [...SAID.slice(0, 2), call('1', '{"x":1,"y":[2]}', 'g')]],
    ['call id', [...SAID.slice(0, 2), call('2', '{"x":1,"y":[2]}')]],
    ['number of calls', [...SAID.slice(0, 3), call('2')]],
    ['file', [user('a'), file('AAAA'), ...SAID.slice(1)]],
  ])('with another %s has another key', async (_, items) => {
    const [key] = await keysOf(...SAID)
    expect(await keysOf(...items)).not.toContain(key)
  })

  test('with another output has another key for the next answer', async () => {
    const one = await keysOf(...SAID, agent('c'))
    const other = await keysOf(...SAID.slice(0, 3), output('1', 'O'), agent('c'))
    expect(other[0]).not.toBe(one[0])
    expect(other[1]).toBe(one[1])
  })

  test('with another file has another key', async () => {
    const [one] = await keysOf(file('AAAA'), agent('b'))
    const [other] = await keysOf(file('AAAB'), agent('b'))
    expect(one).not.toBe(other)
    expect(await keysOf(user('a'), file('AAAA'), user('b'), agent('c'))).toEqual(
      await keysOf(user('a'), user('b'), file('AAAA'), agent('c')),
    )
  })
})

test('an answer is known by what clients see of it', async () => {
  const answerKey = async (...items: Parameters<ThreadChain['answerKey']>[0]) =>
    (await ThreadChain.read([user('a')])).answerKey(items)
  const text = { type: 'message', id: '1', content: 'b', origin: 'agent' } as const
  const own = { type: 'function_call', id: '2', call_id: 'x', name: 'f', arguments: '{}' } as const
  const ran = {
    type: 'function_call_output',
    id: '3',
    call_id: 'x',
    output: 'o',
    success: true,
  } as const
  const [key] = await keysOf(user('a'), agent('b'))
  expect(await answerKey(text, own, ran)).toBe(key)
  expect(await answerKey({ ...own, provider_metadata: { executed_by: 'provider' } }, text)).toBe(
    key,
  )
  expect(await answerKey({ ...text, content: 'z', cancelled: {} }, text)).toBe(key)
  expect(await answerKey({ ...own, call_id: '' })).toBe((await keysOf(user('a'), call('2')))[0])
  expect(await answerKey(own, ran)).toBeUndefined()
  expect(await answerKey()).toBeUndefined()
})

test('a request of 2,048 messages and 4 MB does not hold the event loop', async () => {
  const many = Array.from({ length: 1024 }, (_, turn) => {
    const args = JSON.stringify({ text: 'word '.repeat(200), turn })
    return [user('word '.repeat(200)), agent('word '.repeat(200)), call(`${turn}`, args)]
  })
  const large = [
    user('x y '.repeat(2 ** 20)),
    agent('x y '.repeat(2 ** 20)),
    file('A'.repeat(2 ** 22)),
  ]
  const items = [...many.flat(), ...large]
  await keysOf(...items)
  const { longest, total } = await loopGaps(() => keysOf(...items))
  expect(longest).toBeLessThan(total / 2)
})
