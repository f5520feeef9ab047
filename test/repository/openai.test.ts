/** The examples of docs/openai.md and docs/anthropic.md, run in order against a server. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Process, turnstream } from '../cli/process.ts'
import { linesOf, outdent, pattern } from './printed.ts'
import { read, root } from './sources.ts'

const DOCUMENT = read('docs/openai.md') + read('docs/anthropic.md')
const BLOCKS = [...DOCUMENT.matchAll(/^```(js|sh)\n(.*?)^```\n\n((?: {4}[^\n]*\n)+)/gms)].map(
  ([, language = '', code = '', printed = '']) => ({ language, code, printed: outdent(printed) }),
)

let folder = ''
let server: Process
let url = ''

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-openai-'))
  const args = ['serve', '--port', '0', '--store', 'memory', '--scripted-speed', '0']
  server = turnstream(args, { cwd: folder, outlives: true })
  url = (await server.printed(/^turnstream listening on (\S+)\n/))[1] ?? ''
}, 30_000)

afterAll(async () => {
  server.child.kill('SIGKILL')
  await server.ended
  rmSync(folder, { recursive: true, force: true })
})

test.each(BLOCKS)(
  '$code',
  ({ language, code, printed }) => {
    const program = code.replaceAll('http://127.0.0.1:4010', url)
    const [command, args] =
      language === 'sh'
        ? ['sh', ['-c', program]]
        : [process.execPath, ['--input-type=module', '-e', program]]
    const { stdout, stderr } = spawnSync(command, args, { cwd: root, encoding: 'utf8' })
    expect(stderr).toBe('')
    expect(`${linesOf(stdout).join('\n')}\n`).toMatch(pattern(printed))
  },
  30_000,
)

test('every block of the documents is run', () => {
  expect(DOCUMENT.match(/^```\w+$/gm)).toHaveLength(BLOCKS.length)
  expect(BLOCKS).toHaveLength(4)
})
