/** The commands of docs/storage.md, in order, on a stopped embedded store. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openEmbeddedLog } from '../../packages/turnstream/src/log/embedded/open.ts'
import { read, root } from './sources.ts'

const COMMANDS = [...read('docs/storage.md').matchAll(/^```sh\n(.*?)^```/gms)].map(
  ([, code = '']) => code,
)

let folder = ''

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-storage-'))
  const log = await openEmbeddedLog({ directory: join(folder, 'data') })
  await log.putThread({ threadId: 'thread' })
  await log.close()
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.each(COMMANDS)('%s', { timeout: 60_000 }, (code) => {
  const ours = `turnstream() { '${process.execPath}' '${join(root, 'packages/turnstream/dist/cli/main.js')}' "$@"; }`
  const { status, stderr } = spawnSync('sh', ['-ec', `${ours}\n${code}`], {
    cwd: folder,
    encoding: 'utf8',
  })
  expect([status, stderr]).toEqual([0, stderr])
})

test('they compact, check, copy and back up', () => {
  expect(COMMANDS).toHaveLength(3)
  for (const path of ['turns.jsonl', 'repaired/turns.mdb', 'backup/turns.mdb']) {
    expect(existsSync(join(folder, path)), path).toBe(true)
  }
})
