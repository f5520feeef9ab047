import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { chat } from '../../../src/cli/chat.ts'
import { formatHelp, UsageError } from '../../../src/cli/command.ts'
import { environmentKey } from '../../../src/cli/gateway.ts'
import { tail } from '../../../src/cli/tail.ts'
import { KeyRing, sha256Of } from '../../../src/server/auth/key-ring.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { startGateway } from '../gateway.ts'

const KEY = 'ts_the-key-of-acme'

function guarded() {
  return startGateway({
    keys: new KeyRing([{ tenant: 'acme', name: 'cli', sha256: sha256Of(KEY) }]),
  })
}

const keyOf = (env: Record<string, string>) => environmentKey(env, 'TURNSTREAM_KEY')

describe('the API key of a command', () => {
  test('comes from the environment or a file', () => {
    const folder = mkdtempSync(join(tmpdir(), 'turnstream-key-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const file = join(folder, 'key')
    writeFileSync(file, `${KEY}\n`)
    expect(keyOf({ TURNSTREAM_KEY: ` ${KEY} ` })).toBe(KEY)
    expect(keyOf({ TURNSTREAM_KEY_FILE: file })).toBe(KEY)
    expect(keyOf({})).toBeUndefined()
    expect(keyOf({ TURNSTREAM_KEY: '' })).toBeUndefined()
  })

  test.each([`${KEY}\n${KEY}`, `${KEY} ${KEY}`, `${KEY}ü`, 'x'.repeat(600), `${KEY}\0`])(
    '%j is invalid and not printed',
    (key) => {
      const take = () => keyOf({ TURNSTREAM_KEY: key })
      expect(take).toThrow(UsageError)
      expect(take).not.toThrow(KEY)
    },
  )

  test.each([
    ['chat', chat],
    ['tail', tail],
  ])(
    '%s has no option for it, because command lines are visible to all users',
    async (_name, command) => {
      const { terminal } = fakeTerminal()
      const refused = command.run(['--key', KEY, 'x'], terminal)
      await expect(refused).rejects.toThrow('unknown option --key')
      expect(formatHelp(command)).toContain('TURNSTREAM_KEY')
    },
  )
})

describe('a gateway with keys', () => {
  test('accepts chat and tail with a key', async () => {
    const { url, log } = await guarded()
    const env = { TURNSTREAM_KEY: KEY }
    const talk = fakeTerminal([], { env })
    expect(await chat.run(['--url', url, 'Hello'], talk.terminal)).toBe(0)
    expect(talk.output()).toContain('This is a recorded answer')
    const { items } = await log.ofTenant('acme').listThreads()
    const turns = await log.ofTenant('acme').listTurns(items[0]?.threadId ?? '')
    const turnId = turns.items[0]?.turnId ?? ''
    for (const raw of [[], ['--raw']]) {
      const follow = fakeTerminal([], { env })
      expect(await tail.run([turnId, '--url', url, ...raw], follow.terminal)).toBe(0)
      expect(follow.output()).toMatch(/turn_complete|response_done/)
      expect(talk.output() + talk.errors() + follow.output() + follow.errors()).not.toContain(KEY)
    }
  })

  test.each([
    ['without one', {}, 'the gateway needs an API key: set TURNSTREAM_KEY'],
    [
      'with a wrong one',
      { TURNSTREAM_KEY: 'ts_a-wrong-key' },
      'the gateway rejected TURNSTREAM_KEY',
    ],
  ])('%s prints what to do', async (_name, env, advice) => {
    const { url } = await guarded()
    for (const [command, args] of [
      [chat, ['Hello']],
      [tail, ['turn']],
      [tail, ['turn', '--raw']],
    ] as const) {
      const { terminal, errors, output } = fakeTerminal([], { env })
      expect(await command.run([...args, '--url', url], terminal)).toBe(1)
      expect(errors()).toMatch(/^turnstream: [^\n]*\n$/)
      expect(errors()).toContain(advice)
      expect(errors() + output()).not.toContain('ts_a-wrong-key')
    }
    const { terminal, output } = fakeTerminal([], { env })
    expect(await chat.run(['--json', '--url', url, 'Hello'], terminal)).toBe(1)
    expect(JSON.parse(output())).toMatchObject({
      error: { code: expect.stringMatching(/^KEY_/), message: expect.stringContaining(advice) },
    })
  })
})
