import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { POSTCARD_TOOL, TOOL_MODELS } from '../../../src/cli/demo/tool-models.ts'
import { startGateway } from '../gateway.ts'
import { untilTrue } from '../support.ts'

const MAIN = new URL('../../../dist/cli/main.js', import.meta.url).pathname
const SCRIPT = '/usr/bin/script'

/** A chat in a terminal of its own. */
function chatInTerminal(url: string) {
  const command = [process.execPath, MAIN, 'chat', '--url', url, '--model', 'scripted/approval']
  const child = spawn(SCRIPT, ['-qec', command.join(' '), '/dev/null'])
  const ended = once(child, 'close')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  let screen = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text
  })
  return {
    type: (text: string) => child.stdin.write(text),
    shown: (text: string) => untilTrue(() => screen.includes(text)),
    screen: () => screen,
  }
}

// `script` of util-linux; others take other options.
test.runIf(process.platform === 'linux' && existsSync(SCRIPT)).each([
  ['a line', 'y\r'],
  ['a part of a line', 'y'],
])(
  '%s typed before the question does not approve a call',
  { timeout: 30_000, tags: ['slow'] },
  async (_, typed) => {
    const { url } = await startGateway({
      recordings: TOOL_MODELS,
      tools: [POSTCARD_TOOL],
      speed: 1,
    })
    const { type, shown, screen } = chatInTerminal(url)
    await shown('> ')
    type('Hello\r')
    await shown('I send')
    type(typed)
    await shown('Run this tool?')
    expect(screen()).not.toContain('approved')
    type('not now\r')
    await shown('(declined: not now)')
  },
)
