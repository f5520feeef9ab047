import { describe, expect, test } from 'vitest'
import { LiveLines } from '../../../src/log/redis/writer.ts'

/** More than is held for a turn. */
const TOO_MANY_CHARS = 16 * 1024 + 1

function cleared(...added: string[]): LiveLines {
  const live = new LiveLines()
  live.clear()
  for (const lines of added) live.add(lines)
  return live
}

describe('the lines not yet in a chunk', () => {
  test('are unknown until the chunk is known to be empty', () => {
    const live = new LiveLines()
    live.add('a')
    expect(live.followedBy('b')).toBeUndefined()
    live.clear()
    live.add('c')
    expect(live.followedBy('d')).toBe('c\nd')
  })

  test.each([
    [[], '', ''],
    [[], 'a', 'a'],
    [['a'], '', 'a'],
    [['a', ''], 'b', 'a\nb'],
    [['a\nb', 'c'], 'd\ne', 'a\nb\nc\nd\ne'],
  ])('of %j, followed by %j, are %j', (added, lines, expected) => {
    expect(cleared(...added).followedBy(lines)).toBe(expected)
  })

  test('are unchanged by an empty append', () => {
    const live = cleared('a')
    live.followedBy('b')
    expect(live.followedBy('c')).toBe('a\nc')
  })

  test.each([31, 32, 33, 64, 255])('are complete when added one by one, %i', (count) => {
    const lines = Array.from({ length: count }, (_, at) => `line ${at}`)
    expect(cleared(...lines).followedBy('')).toBe(lines.join('\n'))
  })

  test('are unknown after a reset, and known again when there are none', () => {
    const live = cleared('a')
    live.forget()
    live.add('b')
    expect(live.followedBy('c')).toBeUndefined()
    live.clear()
    expect(live.followedBy('d')).toBe('d')
  })

  test('are bounded, and known again when there are none', () => {
    const most = 'x'.repeat(TOO_MANY_CHARS - 1)
    const live = cleared(most)
    expect(live.followedBy('')).toBe(most)
    live.add('y')
    expect(live.followedBy('')).toBeUndefined()
    live.clear()
    live.add('z')
    expect(live.followedBy('')).toBe('z')
  })
})
