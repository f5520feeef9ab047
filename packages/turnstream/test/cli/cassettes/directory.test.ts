import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { CassetteDirectory, recordingName } from '../../../src/cli/cassettes/directory.ts'
import { recordingsIn, testFolder } from './support.ts'

const LINE = `{"at":1,"call":1,"text":"${'x'.repeat(970)}"}\n`

async function openAt(directory: string, limits: { file?: number; total?: number } = {}) {
  const errors: unknown[] = []
  const opened = await CassetteDirectory.open({
    directory,
    maxFileBytes: limits.file ?? 1e6,
    maxTotalBytes: limits.total ?? 1e6,
    onError: (error) => errors.push(error),
  })
  return { opened, errors }
}

async function record(opened: CassetteDirectory, id: string, lines = 1) {
  const file = opened.create(recordingName(id), { createdAt: 1 })
  const written = Array.from({ length: lines }, () => file?.write(LINE, false))
  file?.close()
  await opened.settled()
  return written
}

describe('a directory of recordings', () => {
  test('is created for its owner, and so are its files', async () => {
    const directory = join(testFolder(), 'a', 'b')
    const { opened } = await openAt(directory)
    await record(opened, 'one', 2)
    expect(statSync(directory).mode & 0o777).toBe(0o700)
    const path = opened.pathOf(recordingName('one'))
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readFileSync(path, 'utf8')).toMatch(/^{"format":"turnstream-cassette".*\n(.+\n){2}$/)
  })

  test('replaces a recording of the same name, whatever its mode was', async () => {
    const directory = testFolder()
    const path = join(directory, recordingName('one'))
    writeFileSync(path, 'old')
    chmodSync(path, 0o644)
    const { opened } = await openAt(directory)
    await record(opened, 'one')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readFileSync(path, 'utf8')).not.toContain('old')
  })

  test('deletes the oldest recordings beyond its size, and no other files', async () => {
    const directory = testFolder()
    writeFileSync(join(directory, 'mine.cassette.jsonl'), 'x'.repeat(9000))
    writeFileSync(join(directory, 'rec-notes.txt'), 'x')
    const { opened } = await openAt(directory, { total: 2500 })
    for (const id of ['one', 'two', 'three']) await record(opened, id)
    expect(recordingsIn(directory)).toEqual([
      'mine.cassette.jsonl',
      'rec-notes.txt',
      'rec-three.cassette.jsonl',
      'rec-two.cassette.jsonl',
    ])
    // Found again by the next process.
    const again = await openAt(directory, { total: 1200 })
    await again.opened.settled()
    expect(again.opened.names()).toHaveLength(1)
    expect(recordingsIn(directory)).toHaveLength(3)
  })

  test('stops a recording at its own limit and leaves room for its end', async () => {
    const { opened } = await openAt(testFolder(), { file: 2300 })
    expect(await record(opened, 'one', 3)).toEqual([true, true, false])
    const file = opened.create(recordingName('two'), { createdAt: 1 })
    while (file?.write(LINE, false));
    expect(file?.write('{"at":1,"call":1,"end":"limit"}\n', true)).toBe(true)
    file?.close()
    await opened.settled()
  })

  test('does not delete a recording that is being written, and refuses a new one instead', async () => {
    const { opened } = await openAt(testFolder(), { total: 1200 })
    const file = opened.create(recordingName('one'), { createdAt: 1 })
    expect(file?.write(LINE, false)).toBe(true)
    expect(file?.write(LINE, false)).toBe(false)
    const next = opened.create(recordingName('two'), { createdAt: 1 })
    expect(next?.write(LINE, false) ?? false).toBe(false)
    file?.close()
    next?.close()
    await opened.settled()
  })

  test('a deleted recording is not written again', async () => {
    const directory = testFolder()
    const { opened, errors } = await openAt(directory)
    const file = opened.create(recordingName('one'), { createdAt: 1 })
    file?.write(LINE, false)
    opened.remove(recordingName('one'))
    opened.remove(recordingName('none'))
    expect(file?.write(LINE, false)).toBe(false)
    file?.close()
    await opened.settled()
    expect(recordingsIn(directory)).toEqual([])
    expect(errors).toEqual([])
  })

  test('reports once that it cannot write', async () => {
    const { opened, errors } = await openAt(testFolder())
    // Longer than a file system allows, also for the administrator.
    const name = recordingName('x'.repeat(400))
    const file = opened.create(name, { createdAt: 1 })
    file?.write(LINE, false)
    file?.close()
    await opened.settled()
    expect(file?.write(LINE, false)).toBe(false)
    expect(errors).toHaveLength(1)
  })
})
