// Breaks one rule of the core at a time, in a copy of the tree, and checks that a test notices.
// A rule that can be broken without a failing test is a rule that nobody keeps.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** @typedef {{ rule: string, file: string, from: string, to: string, tests: string }} Mutant */

/** @type {Mutant[]} */
const mutants = [
  {
    rule: 'P2 a threshold must be exceeded (> becomes >=)',
    file: 'src/processor/items.ts',
    from: 'tokens > buffer.threshold',
    to: 'tokens >= buffer.threshold',
    tests: 'test/processor',
  },
  {
    rule: 'P1 tokens are rounded up (ceil becomes floor)',
    file: 'src/processor/options.ts',
    from: 'Math.ceil',
    to: 'Math.floor',
    tests: 'test/processor',
  },
  {
    rule: 'P6 user messages are held',
    file: 'src/processor/items.ts',
    from: "isHeld: contentType === 'tool_call' || isUser",
    to: "isHeld: contentType === 'tool_call'",
    tests: 'test/processor',
  },
  {
    rule: 'P7 calls are held',
    file: 'src/processor/items.ts',
    from: "isHeld: contentType === 'tool_call' || isUser",
    to: 'isHeld: isUser',
    tests: 'test/processor',
  },
  {
    rule: 'P12 what is unshown goes by length, not by tokens',
    file: 'src/processor/content-buffer.ts',
    from: 'return this.#text.length > this.#offeredLength',
    to: 'return this.getTokenCount() > this.#estimateTokens(this.#offeredLength)',
    tests: 'test/processor',
  },
  {
    rule: 'P13 only what was accepted counts as shown',
    file: 'src/processor/step.ts',
    from: 'emission.buffer.withdrawOffer(emission.content.length)',
    to: 'emission.buffer.markEmitted(emission.content.length)',
    tests: 'test/processor',
  },
  {
    rule: 'P13 a growth is create until one was accepted',
    file: 'src/processor/outputs.ts',
    from: "buffer.hasEmittedCreate() ? 'update' : 'create'",
    to: "buffer.getState().emittedTokenCount >= 0 ? 'update' : 'create'",
    tests: 'test/processor',
  },
  {
    rule: 'P13 a lost turn_started comes first',
    file: 'src/processor/step.ts',
    from: "if (turn.opening?.fate === 'lost' && emission.kind !== 'opening')",
    to: 'if (false as boolean && turn.opening)',
    tests: 'test/processor',
  },
  {
    rule: 'P13 unshown text waits no longer than maxLatencyMs',
    file: 'src/processor/content-buffer.ts',
    from: 'Math.min(this.#lastDeltaAt + batchTimeoutMs, this.#unshownSince + maxLatencyMs)',
    to: 'this.#lastDeltaAt + batchTimeoutMs + 0 * maxLatencyMs',
    tests: 'test/processor',
  },
  {
    rule: 'P14 emissions are delivered one at a time, in order',
    file: 'src/processor/stream-processor.ts',
    from: 'if (!this.#delivering) void this.#deliverAll()',
    to: 'void this.#deliverAll()',
    tests: 'test/processor',
  },
  {
    rule: 'P12 nothing follows a terminal event',
    file: 'src/processor/step.ts',
    from: 'return turn.ending === undefined ? stepEvent(turn, input, now) : NOTHING',
    to: 'return stepEvent(turn, input, now)',
    tests: 'test/processor',
  },
  {
    rule: 'P15 the attempts are counted',
    file: 'src/processor/stream-processor.ts',
    from: 'attempt >= retryAttempts',
    to: 'attempt > retryAttempts',
    tests: 'test/processor',
  },
]

const root = fileURLToPath(new URL('..', import.meta.url))
const copy = mkdtempSync(join(tmpdir(), 'turnstream-mutants-'))
const survivors = []

try {
  for (const part of ['src', 'test', 'package.json', 'tsconfig.json', 'vitest.config.ts']) {
    cpSync(join(root, part), join(copy, part), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'), 'dir')
  if (!passes('test/processor')) throw new Error('the tests fail before anything is broken')
  for (const mutant of mutants) {
    const isKilled = kills(mutant)
    if (!isKilled) survivors.push(mutant.rule)
    console.log(`${isKilled ? 'noticed ' : 'SURVIVED'}  ${mutant.rule}`)
  }
} finally {
  rmSync(copy, { recursive: true, force: true })
}
console.log(`\n${mutants.length - survivors.length} of ${mutants.length} broken rules were noticed`)
if (survivors.length > 0) process.exitCode = 1

/** @param {Mutant} mutant */
function kills({ rule, file, from, to, tests }) {
  const path = join(copy, file)
  const source = readFileSync(path, 'utf8')
  if (source.split(from).length !== 2) throw new Error(`${rule}: ${file} does not hold it once`)
  writeFileSync(path, source.replace(from, to))
  try {
    return !passes(tests)
  } finally {
    writeFileSync(path, source)
  }
}

/** @param {string} tests */
function passes(tests) {
  const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
  // A broken rule may make a test wait for ever: that is noticing, too.
  const args = [vitest, 'run', tests, '--bail', '1', '--testTimeout', '5000']
  const { status } = spawnSync(process.execPath, args, { cwd: copy, timeout: 120_000 })
  return status === 0
}
