/** What the documents show is run: their programs and commands print what the documents say. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linesOf, outdent, pattern } from './printed.ts'
import { documents, read, root } from './sources.ts'

interface Example {
  name: string
  code: string
  printed: string
}

const all = documents()
const programs = all.flatMap((document) => programsIn(document, read(document)))
const commands = all.flatMap((document) => commandsIn(document, read(document)))

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-examples-'))
  symlinkSync(join(root, 'test'), join(folder, 'test'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('the programs', () => {
  test.each(programs)('$name', ({ code, printed }) => {
    const args = ['--input-type=module', '-e', code]
    const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
    expect(stderr).toBe('')
    expect(linesOf(stdout)).toEqual(linesOf(printed))
  })
})

describe('the commands', () => {
  const ours = `turnstream() { '${process.execPath}' '${join(root, 'packages/turnstream/dist/cli/main.js')}' "$@"; }`

  test.each(commands)('$name', { tags: ['slow'] }, ({ code, printed }) => {
    const script = `exec 2>&1\n${ours}\nnpx() { "$@"; }\n${code}`
    const { stdout } = spawnSync('sh', ['-c', script], { cwd: folder, encoding: 'utf8' })
    expect(`${linesOf(stdout).join('\n')}\n`).toMatch(pattern(printed))
  })
})

describe('the document parser', () => {
  test('finds programs and commands', () => {
    const names = programs.map(({ name }) => name)
    expect(names).toContain('docs/embedding.md: import { StreamProcessor } …')
    expect(commands.map(({ name }) => name)).toContain(
      'docs/cassettes.md: turnstream convert --from gemini --to v2 --json test/fixtures/gemini/text.sse > turn.jsonl',
    )
  })

  test('joins continued lines and groups commands', () => {
    const text =
      'So:\n\n    $ a \\\n        b\n    one\n\n    two\n    $ c\n    three\n\nEnd\n\n    d\n'
    expect(commandsIn('x.md', text)).toEqual([
      { name: 'x.md: a', code: 'a \\\n    b\nc', printed: 'one\n\ntwo\nthree' },
    ])
  })

  test.each([
    ['a…c', 'abbc', true],
    ['a…c', 'ab', false],
    ['a…c', 'a\nc', false],
    ['a\n…\nc', 'a\nb\nb\nc', true],
    ['a\n…\nc', 'a\nc', true],
    ['a\nc', 'a\nb\nc', false],
    ['a.c', 'abc', false],
  ])('%j matches %j: %s', (printed, output, expected) => {
    expect(pattern(printed).test(`${output}\n`)).toBe(expected)
  })
})

/** Blocks of JavaScript that are followed by what they print; `readme-server.test.ts` runs those for a server. */
function programsIn(document: string, text: string): Example[] {
  const found = text.matchAll(/^```js\n((?:(?!```).*\n)*)```\n\n((?: {4}.*\n)+)/gm)
  const blocks = [...found].filter(([, code = '']) => !code.includes('http://127.0.0.1:4010'))
  return blocks.map(([, code = '', printed = '']) => {
    const title = code.split('\n').find((line) => line.includes("'turnstream'")) ?? ''
    const name = `${document}: ${title.replace(/ from .*/, ' …')}`
    return { name, code, printed: outdent(printed) }
  })
}

/** Indented blocks that begin with a command: `$ ` and, after a backslash, the line below. */
function commandsIn(document: string, text: string): Example[] {
  const blocks = text.match(/^ {4}\$ .*(?:\n(?: {4}.*|(?=\n* {4}\S)))*/gm) ?? []
  return blocks.map((block) => {
    const code: string[] = []
    const printed: string[] = []
    let goesOn = false
    for (const line of outdent(block).split('\n')) {
      const isCommand: boolean = goesOn || line.startsWith('$ ')
      if (isCommand) code.push(line.replace(/^\$ /, ''))
      else printed.push(line)
      goesOn = isCommand && line.endsWith('\\')
    }
    const name = `${document}: ${(code[0] ?? '').replace(/ *\\$/, '')}`
    return { name, code: code.join('\n'), printed: printed.join('\n') }
  })
}
