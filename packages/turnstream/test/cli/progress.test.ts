import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { toolsTurn } from '../../../../test/demo-recordings.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import { replay } from '../../src/cli/cassettes/replay.ts'
import { convert } from '../../src/cli/convert.ts'
import { throttled } from '../../src/cli/terminal.ts'
import { fakeTerminal } from './fake-terminal.ts'

test('updates a few times a second and formats only what it prints', async () => {
  const clock = fakeClock()
  const shown: string[] = []
  const show = throttled(clock, (text) => shown.push(text))
  let made = 0
  for (let step = 1; step <= 100; step++) {
    await clock.advance(10)
    show(() => {
      made += 1
      return `${step}`
    })
  }
  expect(shown).toEqual(['20', '40', '60', '80', '100'])
  expect(made).toBe(5)
})

describe('convert', () => {
  const bytes = readFileSync('test/fixtures/anthropic-messages/text.sse')
  const args = ['--from', 'anthropic-messages', '--to', 'v2']

  test('prints how much it has read and clears that at the end', async () => {
    // Each half takes a second to come.
    async function* slow() {
      for (const half of [bytes.subarray(0, 200), bytes.subarray(200)]) {
        await fake.clock.advance(1000)
        yield half
      }
    }
    const fake = fakeTerminal(slow())
    expect(await convert.run(args, fake.terminal)).toBe(0)
    expect(fake.statuses).toEqual(['0.0 MB read', '0.0 MB read', ''])
    expect(fake.output()).not.toContain('MB read')
  })

  test('clears the progress when the input is unreadable', async () => {
    const fake = fakeTerminal([new TextEncoder().encode('{"type":\n')])
    await expect(convert.run(args, fake.terminal)).rejects.toThrow('unreadable')
    expect(fake.statuses.at(-1)).toBe('')
  })
})

test('replay prints how many events it has played', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-progress-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const recording = toolsTurn()
  const file = join(folder, 'turn.jsonl')
  writeFileSync(file, recording.map((event) => JSON.stringify(event)).join('\n'))
  const { terminal, clock, statuses } = fakeTerminal()
  let isOver = false
  const played = replay.run([file], terminal).finally(() => {
    isOver = true
  })
  while (!isOver) await clock.advance(clock.pending() > 0 ? 1 : 0)
  expect(await played).toBe(0)
  expect(statuses.length).toBeGreaterThan(2)
  for (const status of statuses.slice(0, -1)) {
    expect(status).toMatch(new RegExp(`^\\d+ of ${recording.length} events$`))
  }
  expect(statuses.at(-1)).toBe('')
})
