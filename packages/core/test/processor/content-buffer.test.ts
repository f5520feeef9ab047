import { expect, test } from 'vitest'
import { ContentBuffer } from '../../src/index.ts'

test('P18 a new buffer is open, not emitted and at the start of the gradient', () => {
  const buffer = new ContentBuffer('m', 'message')
  expect(buffer.getState()).toEqual({
    itemId: 'm',
    contentType: 'message',
    content: '',
    tokenCount: 0,
    batchIndex: 0,
    emittedTokenCount: 0,
    isComplete: false,
    isHeld: false,
    hasEmittedCreate: false,
  })
})

test('P18 the constructor arguments are in the state', () => {
  const buffer = new ContentBuffer('f', 'tool_call', {
    initialContent: '{"a"',
    origin: 'system',
    providerId: 'openai',
    toolName: 'f',
    callId: 'c',
    isHeld: true,
    estimateTokens: (length) => length * 2,
  })
  expect(buffer.getState()).toMatchObject({
    content: '{"a"',
    tokenCount: 8,
    origin: 'system',
    providerId: 'openai',
    toolName: 'f',
    callId: 'c',
    isHeld: true,
  })
})

test('P18 content and tokens grow with each append', () => {
  const buffer = new ContentBuffer('m', 'message', { initialContent: 'abcd' })
  buffer.appendContent('efg')
  expect(buffer.getContent()).toBe('abcdefg')
  expect(buffer.getTokenCount()).toBe(2)
  expect(buffer.toBufferInfo()).toEqual({
    itemId: 'm',
    contentType: 'message',
    tokenCount: 2,
    contentLength: 7,
    batchIndex: 0,
    isHeld: false,
    isComplete: false,
  })
})

test('P18 emitted content no longer counts as unemitted', () => {
  const buffer = new ContentBuffer('m', 'message', { initialContent: 'x'.repeat(40) })
  expect(buffer.getUnemittedTokenCount()).toBe(10)
  buffer.markEmitted()
  buffer.appendContent('y'.repeat(8))
  expect(buffer.getUnemittedTokenCount()).toBe(2)
  expect(buffer.getState().emittedTokenCount).toBe(10)
  buffer.markEmitted(4)
  expect(buffer.getState().emittedTokenCount).toBe(10)
})

test('P18 marks stay set', () => {
  const buffer = new ContentBuffer('m', 'message')
  buffer.markComplete()
  buffer.markCreateEmitted()
  buffer.advanceBatchIndex()
  buffer.setHeld(true)
  expect([buffer.isComplete(), buffer.hasEmittedCreate(), buffer.isHeld()]).toEqual([
    true,
    true,
    true,
  ])
  expect(buffer.getBatchIndex()).toBe(1)
  buffer.setHeld(false)
  expect(buffer.isHeld()).toBe(false)
})

test('an offer is neither emitted nor pending until the sink responds', () => {
  const buffer = new ContentBuffer('m', 'message', { initialContent: 'abc' })
  expect([buffer.hasUnshownContent(), buffer.wasOffered()]).toEqual([true, false])
  expect(buffer.offer()).toBe('abc')
  expect([buffer.hasUnshownContent(), buffer.wasOffered()]).toEqual([false, true])
  buffer.withdrawOffer(3)
  expect([buffer.hasUnshownContent(), buffer.wasOffered()]).toEqual([true, false])
})

test('a failed offer does not undo a longer one that follows it', () => {
  const buffer = new ContentBuffer('m', 'message', { initialContent: 'abc' })
  buffer.offer()
  buffer.appendContent('de')
  buffer.offer()
  buffer.withdrawOffer(3)
  expect(buffer.hasUnshownContent()).toBe(false)
  buffer.withdrawOffer(5)
  expect(buffer.hasUnshownContent()).toBe(true)
})

test('the deadline is the earlier of silence and age', () => {
  const buffer = new ContentBuffer('m', 'message')
  expect(buffer.deadline(10, 30)).toBe(Infinity)
  buffer.touch(100)
  expect(buffer.deadline(10, 30)).toBe(110)
  buffer.touch(125)
  expect(buffer.deadline(10, 30)).toBe(130)
  buffer.offer()
  expect(buffer.deadline(10, 30)).toBe(Infinity)
})

test('a finished call has its arguments, or their text when they cannot be parsed', () => {
  const call = new ContentBuffer('f', 'tool_call', { initialContent: '{"a"' })
  call.finishCall('f', 'c', '{"a":1}')
  expect(call.getState()).toMatchObject({ toolArguments: { a: 1 }, content: '', isComplete: true })
  const broken = new ContentBuffer('f', 'tool_call')
  broken.finishCall('f', 'c', '{"a"')
  expect(broken.getState()).toMatchObject({ toolArguments: {}, content: '{"a"' })
})
