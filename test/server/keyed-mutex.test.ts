import { expect, test } from 'vitest'
import { KeyedMutex } from '../../src/server/tenant-space.ts'

function gate() {
  let open = () => {}
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, passed }
}

test('the tasks of a name run one after the other, and those of others meanwhile', async () => {
  const changes = new KeyedMutex()
  const { open, passed } = gate()
  const seen: string[] = []
  const first = changes.run('a', async () => {
    await passed
    seen.push('first of a')
    return 1
  })
  const second = changes.run('a', async () => seen.push('second of a'))
  await changes.run('b', async () => seen.push('of b'))
  expect(changes.size).toBe(1)
  open()
  expect([await first, await second]).toEqual([1, 3])
  expect(seen).toEqual(['of b', 'first of a', 'second of a'])
})

test('one that fails is told of it, and holds up nobody', async () => {
  const changes = new KeyedMutex()
  const failing = changes.run('a', () => Promise.reject(new Error('no')))
  const next = changes.run('a', async () => 'done')
  await expect(failing).rejects.toThrow('no')
  expect(await next).toBe('done')
  expect(changes.size).toBe(0)
})
