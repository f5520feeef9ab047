/** The command line as a person meets it: the built program, started as a process. */
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

function turnstream(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['packages/turnstream/dist/cli/main.js', ...args],
    {
      encoding: 'utf8',
      env: { ...process.env, FORCE_COLOR: undefined, NO_COLOR: undefined },
    },
  )
  return { status, stdout, stderr }
}

test.each(['--version', '-v', 'version'])('%s prints the version of the package', (word) => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
  expect(turnstream(word)).toEqual({ status: 0, stdout: `${version}\n`, stderr: '' })
})

test.each([
  [[], 'Start with: turnstream serve'],
  [['--help'], 'Start with: turnstream serve'],
  [['help'], 'Start with: turnstream serve'],
  [['serve', '--help'], '--store <where>'],
  [['help', 'serve'], '--store <where>'],
  [['keys', '--help'], 'turnstream keys add <tenant> [name]'],
  [['chat', '--help'], 'turnstream chat [options] <prompt>'],
  [['tail', '--help'], 'turnstream tail <turnId>'],
  [['convert', '--help'], '--from <format>'],
  [['cassette', '--help'], 'cassette record  '],
  [['help', 'cassette'], 'cassette record  '],
  [['cassette', 'replay', '-h'], 'turnstream cassette replay <file.jsonl>'],
  [['help', 'cassette', 'replay'], 'turnstream cassette replay <file.jsonl>'],
])('%j prints help', { tags: ['slow'] }, (args, text) => {
  const { status, stdout } = turnstream(...args)
  expect(status).toBe(0)
  expect(stdout).toContain(text)
})

test.each([
  [['help', 'serv'], "unknown command 'serv'; did you mean serve?"],
  [['serv'], "unknown command 'serv'; did you mean serve?"],
  [
    ['no-such-command'],
    "unknown command 'no-such-command'; available: serve, codex, keys, doctor, ",
  ],
  [['serve', 'extra'], "unexpected argument 'extra': this command only takes options"],
  [['cassette'], 'cassette takes one of record, replay, diff, export'],
  [['cassette', 'recrod'], 'unknown cassette action; did you mean record?'],
  [['tail', 'x', '--form', '1-2'], 'unknown option --form; did you mean --from?'],
  [['chat', '-x'], 'unknown option -x; available: --url, --model, --thread, --tools, --json'],
  [['serve', '--telemetry'], 'unknown option --telemetry\n'],
  [['serve', '--port'], '--port needs a value'],
  [['serve', '--log-requests=yes'], '--log-requests takes no value'],
  [['cassette', 'replay', 'x', '--speed', '-1'], 'write one that starts with a dash as --speed=-…'],
  [['doctor', '--endpoint', 'x', '--port', '1'], '--port; available: --endpoint, --api, --model'],
  [['cassette', 'replay', 'x', '--speed', 'fast'], "--speed must be a number ≥ 0, got 'fast'"],
  [['cassette', 'replay', 'x', '--speed=-1'], '--speed'],
  [['--no-such-option'], 'unknown option --no-such-option\n'],
])('%j exits with 2', (args, message) => {
  const { status, stdout, stderr } = turnstream(...args)
  expect([status, stdout]).toEqual([2, ''])
  expect(stderr).toContain(message)
  expect(stderr).toMatch(/Try: turnstream (\w+ ){0,2}--help/)
})

test('convert writes while it reads', async () => {
  const child = spawn(
    process.execPath,
    [
      'packages/turnstream/dist/cli/main.js',
      'convert',
      '--from',
      'anthropic-messages',
      '--to',
      'chat-completions',
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  const text = readFileSync('test/fixtures/anthropic-messages/text.sse', 'utf8')
  const middle = text.indexOf('event: content_block_stop')
  const output = child.stdout.setEncoding('utf8')
  child.stdin.write(text.slice(0, middle))
  let seen = ''
  // The end is not sent before the beginning has come out at the other side.
  for await (const part of output) {
    seen += String(part)
    if (seen.includes('"content":"') && child.stdin.writable) child.stdin.end(text.slice(middle))
  }
  expect(seen).toMatch(/data: \[DONE\]\n\n$/)
})

test('convert names the unreadable line of its input', () => {
  const { status, stderr } = spawnSync(
    process.execPath,
    ['packages/turnstream/dist/cli/main.js', 'convert', '--from', 'codex', '--to', 'v2'],
    { input: '{"method":"x"}\n{"method":\n', encoding: 'utf8' },
  )
  expect(status).toBe(2)
  expect(stderr).toMatch(/2 of the input is unreadable/)
})
