import { expect, test } from 'vitest'
import type { OutputItem } from '../../../core/src/index.ts'
import { RefusedData } from '../../src/providers/refused-data.ts'

function signed(signature: number): OutputItem {
  const provider_metadata = { issuer: 'one', anthropic: { signature } }
  return { type: 'reasoning', id: 'r', origin: 'agent', content: '', provider_metadata }
}

test('the oldest of 10,000 items is forgotten', () => {
  const refused = new RefusedData()
  refused.add(Array.from({ length: 10_000 }, (_, at) => signed(at)))
  expect(refused.has(signed(0))).toBe(true)
  refused.add([signed(0), signed(10_000)])
  const known = [0, 1, 2, 10_000].map((at) => refused.has(signed(at)))
  expect(known).toEqual([true, false, true, true])
})

test('items without vendor data are never refused', () => {
  const refused = new RefusedData()
  const plain: OutputItem = { type: 'message', id: 'm', origin: 'agent', content: 'Hi.' }
  const marked: OutputItem = { ...plain, provider_metadata: { executed: true } }
  refused.add([plain, marked, signed(1)])
  expect([plain, marked].map((item) => refused.has(item))).toEqual([false, false])
})
