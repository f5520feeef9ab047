import { expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { OutputItem } from '../../../core/src/index.ts'
import type { KeyedRecords, TurnLog } from '../../../core/src/log/turn-log.ts'
import { MemoryLog } from '../../src/server.ts'
import { IssuerNotes, nameIssuers } from '../../src/turns/issuers.ts'

function signed(signature: string, more: Record<string, unknown> = {}): OutputItem {
  return {
    type: 'reasoning',
    id: signature,
    content: '',
    provider_metadata: { anthropic: { signature }, ...more },
  }
}

const issuersOf = (items: readonly OutputItem[]) =>
  items.map(({ provider_metadata }) => provider_metadata?.['issuer'])

async function remember(log: TurnLog, ...items: OutputItem[]): Promise<unknown[]> {
  const errors: unknown[] = []
  const notes = new IssuerNotes(log, (error) => errors.push(error))
  for (const item of items) notes.add(item)
  await notes.settle()
  return errors
}

function withRecords(keyedRecords: Partial<KeyedRecords>): TurnLog {
  return { keyedRecords } as TurnLog
}

test('thousands of signatures are looked up in bounded reads, the newest ones only', async () => {
  const log = new MemoryLog()
  const items = Array.from({ length: 2000 }, (_, index) => signed(`s${index}`))
  await remember(log, ...items.map((item, index) => signed(item.id, { issuer: `p${index % 3}` })))
  const reads: number[] = []
  const counting = withRecords({
    read: (keys) => {
      reads.push(keys.length)
      return log.keyedRecords.read(keys)
    },
  })
  const issuers = issuersOf(await nameIssuers(counting, items))
  expect(reads).toEqual(Array<number>(16).fill(64))
  const isKnown = (index: number) => index >= 2000 - 1024
  expect(issuers).toEqual(items.map((_, index) => (isKnown(index) ? `p${index % 3}` : undefined)))
})

test('a known issuer is kept, and items without such data are not looked up', async () => {
  const log = new MemoryLog()
  await remember(log, signed('s', { issuer: 'one' }))
  const plain: OutputItem = { type: 'message', id: 'm', origin: 'user', content: 'Hi' }
  const items = [signed('s', { issuer: 'two' }), signed(''), plain]
  const unread = withRecords({ read: () => Promise.reject(new Error('read')) })
  expect(await nameIssuers(unread, items)).toEqual(items)
  expect(issuersOf(await nameIssuers(log, [signed('s')]))).toEqual(['one'])
})

test('the last of several issuers counts, for a day', async () => {
  const clock = fakeClock()
  const log = new MemoryLog({ clock })
  await remember(log, signed('s', { issuer: 'one' }), signed('s', { issuer: 'two' }))
  expect(issuersOf(await nameIssuers(log, [signed('s')]))).toEqual(['two'])
  await clock.advance(24 * 60 * 60 * 1000)
  expect(issuersOf(await nameIssuers(log, [signed('s')]))).toEqual([undefined])
})

test('a store that fails is reported, and delays nothing', async () => {
  const failure = new Error('down')
  const rejecting = withRecords({ add: () => Promise.reject(failure) })
  expect(await remember(rejecting, signed('s', { issuer: 'one' }))).toEqual([failure])
  const throwing = withRecords({
    add: () => {
      throw failure
    },
  })
  expect(await remember(throwing, signed('s', { issuer: 'one' }))).toEqual([failure])
})
