/** The examples of docs/openai.md and docs/anthropic.md, run in order against a server. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Process, turnstream } from '../../packages/turnstream/test/cli/process.ts'
import { FOLDER, nodeProgram } from '../../packages/turnstream/test/clients/sdks/process.ts'
import { installTestClients } from '../../scripts/install-test-clients.mjs'
import { linesOf, outdent, pattern } from './printed.ts'
import { read, root } from './sources.ts'

const DOCUMENT = read('docs/openai.md') + read('docs/anthropic.md')
const BLOCKS = [...DOCUMENT.matchAll(/^```(js|sh)\n(.*?)^```\n\n((?: {4}[^\n]*\n)+)/gms)].map(
  ([, language = '', code = '', printed = '']) => ({ language, code, printed: outdent(printed) }),
)

/** Blocks for SDKs that are not packages of this one. */
const SDK_BLOCKS = BLOCKS.filter(({ code }) => /from '(@ai-sdk|@langchain|@openai)\//.test(code))
const OWN_BLOCKS = BLOCKS.filter((block) => !SDK_BLOCKS.includes(block))

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

test.each(OWN_BLOCKS)(
  '$code',
  ({ language, code, printed }) => {
    if (language === 'sh') check('sh', ['-c', code], printed)
    else check(process.execPath, ['--input-type=module', '-e', code], printed)
  },
  30_000,
)

test.each(SDK_BLOCKS)('$code', { tags: ['slow'], timeout: 120_000 }, ({ code, printed }) => {
  installTestClients(FOLDER)
  check(nodeProgram(), ['--input-type=module', '-e', code], printed, FOLDER)
})

function check(command: string, args: string[], printed: string, cwd = root): void {
  const changed = args.map((arg) => arg.replaceAll('http://127.0.0.1:4010', url))
  const { stdout, stderr } = spawnSync(command, changed, { cwd, encoding: 'utf8' })
  expect(stderr).toBe('')
  expect(`${linesOf(stdout).join('\n')}\n`).toMatch(pattern(printed))
}

test('every block of the documents is run', () => {
  expect(DOCUMENT.match(/^```\w+$/gm)).toHaveLength(BLOCKS.length)
  expect(BLOCKS).toHaveLength(8)
  expect(SDK_BLOCKS).toHaveLength(4)
})
