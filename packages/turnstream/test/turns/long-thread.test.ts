// @module-tag slow
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { folderOfTest } from '../log/embedded/support.ts'

const CHILD = fileURLToPath(new URL('long-thread.mjs', import.meta.url))

/** Much less than the thread: a submit that held all of it would be out of memory. */
const HEAP_MB = 100
const TURNS = 119
const CHARS = 1_000_000

/** What the provider was sent in each turn; fails when the process does. */
function submit(
  directory: string,
  turns: number,
  chars: number,
): { items: number; sent: number }[] {
  const args = [`--max-old-space-size=${HEAP_MB}`, CHILD, directory, `${turns}`, `${chars}`]
  const { status, signal, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  expect([status, signal]).toEqual([0, null])
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { items: number; sent: number })
}

test('a thread may be larger than the memory, also after a restart', {
  timeout: 120_000,
}, () => {
  const directory = folderOfTest()
  const sent = submit(directory, TURNS, CHARS)
  expect(sent).toHaveLength(TURNS)
  expect(Math.max(...sent.map((each) => each.sent))).toBeLessThanOrEqual(8 * 1024 * 1024)
  expect(sent.at(-1)?.items).toBe(8)
  // The estimated tokens of eight such turns are the limit already.
  expect(submit(directory, 1, 10).at(-1)?.items).toBe(8)
})
