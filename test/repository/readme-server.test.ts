/** The server of the README: started as a process, and called as the README says. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Process, turnstream } from '../../packages/turnstream/test/cli/process.ts'
import { linesOf, outdent, pattern } from './printed.ts'
import { read } from './sources.ts'

const README = read('README.md')

// Blocks of `sh`, each followed by what it prints.
const BLOCKS = [...README.matchAll(/^```sh\n(.*?)^```\n\n((?: {4}[^\n]*\n)+)/gms)].map(
  ([, code = '', printed = '']) => ({ code, printed: outdent(printed) }),
)

let folder = ''
let server: Process
let url = ''
let greeting = ''

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-readme-'))
  if (spawnSync('curl', ['--version']).error !== undefined) {
    throw new Error('curl is missing: the commands of the README are run with it')
  }
  server = turnstream(['serve', '--port', '0'], { cwd: folder, outlives: true })
  const [, found = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  await server.printed(/npx turnstream chat/)
  url = found
  greeting = server.stdout()
}, 30_000)

afterAll(async () => {
  server.child.kill('SIGKILL')
  await server.ended
  rmSync(folder, { recursive: true, force: true })
})

describe('the README', () => {
  test('shows the banner of the server', () => {
    const shown = /^ {4}turnstream listening on .*\n(?: {4}.*\n)+/m.exec(README)?.[0] ?? ''
    const said = greeting.split('\n\n')[0] ?? ''
    const said4010 = said.replaceAll(url, 'http://127.0.0.1:4010')
    expect(`${linesOf(said4010).join('\n')}\n`).toMatch(pattern(outdent(shown)))
  })

  test('has commands that submit, stream, cut, resume and cancel', () => {
    const commands = BLOCKS.map(({ code }) => code).join('')
    for (const part of ['/submit', '--max-time', 'last-event-id', '/cancel']) {
      expect(commands).toContain(part)
    }
  })

  // In the order of the README: each goes on where the one before has left off.
  test.each(BLOCKS)(
    '$code',
    ({ code, printed }) => {
      const script = `exec 2>&1\n${code.replaceAll('http://127.0.0.1:4010', url)}`
      const { stdout } = spawnSync('sh', ['-c', script], { cwd: folder, encoding: 'utf8' })
      expect(`${linesOf(stdout).join('\n')}\n`).toMatch(pattern(printed))
    },
    30_000,
  )

  test("has a program for OpenAI's client that prints an answer", {
    timeout: 30_000,
    tags: ['slow'],
  }, () => {
    const [, code = '', printed = ''] =
      /^```js\n(import OpenAI.*?)^```\n\n((?: {4}[^\n]*\n)+)/ms.exec(README) ?? []
    const program = code.replaceAll('http://127.0.0.1:4010', url)
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
    })
    expect(stderr).toBe('')
    expect(`${linesOf(stdout).join('\n')}\n`).toMatch(pattern(outdent(printed)))
  })

  test('neither loses nor repeats a snapshot over a cut and a resume', () => {
    const cat = `cat seen.txt; curl -sN ${url}/xapi/turns/turn-1/stream`
    const args = ['-c', `${cat} -H "last-event-id: $(sed -n 's/^id: //p' seen.txt | tail -n 1)"`]
    const { stdout } = spawnSync('sh', args, { cwd: folder, encoding: 'utf8' })
    const frames = stdout.split('\n').filter((line) => line.startsWith('data: '))
    expect(new Set(frames).size).toBe(frames.length)
    expect(frames.at(-1)).toContain('"type":"turn_complete"')
  })
})

test('has a banner whose commands work', {
  timeout: 30_000,
  tags: ['slow'],
}, () => {
  const commands = [...greeting.matchAll(/^ {2}(curl .*)$/gm)].map(([, command = '']) => command)
  expect(commands).toHaveLength(2)
  const script = commands.join('\n')
  const { stdout, status } = spawnSync('sh', ['-c', script], { cwd: folder, encoding: 'utf8' })
  expect(status).toBe(0)
  expect(stdout).toContain('{"runId":"first-turn"')
  expect(stdout).toContain('"type":"turn_complete"')
})
