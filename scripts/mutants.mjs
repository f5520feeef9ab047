// Breaks one rule at a time, in a copy of the tree, and checks that a test notices. A rule without such a test will
// be broken by a later change. `npm run mutants -- sse log` breaks only those whose file contains one of the words.
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
  {
    rule: 'an SSE id holds no U+0000',
    file: 'src/sse/encode.ts',
    from: 'const BREAKS_FIELD = /[\\r\\n\\0]/',
    to: 'const BREAKS_FIELD = /[\\r\\n]/',
    tests: 'test/sse/encode.test.ts',
  },
  {
    rule: 'a received id with U+0000 is ignored',
    file: 'src/sse/decode.ts',
    from: "if (!value.includes('\\0')) this.#nextId = value",
    to: 'this.#nextId = value',
    tests: 'test/sse/decode.test.ts',
  },
  {
    rule: 'the end of a stream keeps no partial id',
    file: 'src/sse/decode.ts',
    from: "if (!line.startsWith('data:')) return",
    to: "if (line === '') return",
    tests: 'test/sse/decode.test.ts',
  },
  {
    rule: 'a duplicate event changes nothing',
    file: 'src/reducer/reduce.ts',
    from: 'if (state.seen.has(given.event_id)) return state',
    to: "if (given.event_id === '') return state",
    tests: 'test/reducer',
  },
  {
    rule: 'an ended item stays as it is',
    file: 'src/reducer/items.ts',
    from: "if (entry && entry.phase !== 'open') return items",
    to: "if (entry?.phase === 'failed') return items",
    tests: 'test/reducer',
  },
  {
    rule: 'a stray delta is reported once per item',
    file: 'src/reducer/items.ts',
    from: 'if (items.get(id)) return items',
    to: "if (id === '') return items",
    tests: 'test/reducer',
  },
  {
    rule: 'delays between attempts double',
    file: 'src/async/retry.ts',
    from: 'baseMs * 2 ** attempt',
    to: 'baseMs * (attempt + 1)',
    tests: 'test/async/retry.test.ts',
  },
  {
    rule: 'a wait is idle only when its time is up',
    file: 'src/async/idle-timer.ts',
    from: 'if (rest > 0) this.#arm(rest)',
    to: 'if (rest > 500) this.#arm(rest)',
    tests: 'test/async/idle-timer.test.ts',
  },
  {
    rule: 'the longest secret is redacted first',
    file: 'src/protocol/redaction.ts',
    from: 'toSorted((a, b) => b.length - a.length)',
    to: 'toSorted((a, b) => a.length - b.length)',
    tests: 'test/protocol/redaction.test.ts',
  },
  {
    rule: 'a secret of four characters is redacted',
    file: 'src/protocol/redaction.ts',
    from: 'length >= MIN_SECRET_CHARS',
    to: 'length > MIN_SECRET_CHARS',
    tests: 'test/protocol/redaction.test.ts',
  },
  {
    rule: 'a lease runs out when its time is reached',
    file: 'src/log/rules.ts',
    from: 'return now >= state.until',
    to: 'return now > state.until',
    tests: 'test/log/rules.test.ts',
  },
  {
    rule: 'a log has no gaps',
    file: 'src/log/rules.ts',
    from: 'first > head + 1)',
    to: 'first > head + 2)',
    tests: 'test/log/memory-log.test.ts',
  },
  {
    rule: 'a sealed log takes no record',
    file: 'src/log/rules.ts',
    from: 'if (sealed && known < count) {',
    to: 'if (sealed && known < 0) {',
    tests: 'test/log/memory-log.test.ts',
  },
  {
    rule: 'a cursor of another epoch is foreign',
    file: 'src/log/offsets.ts',
    from: 'if (seq > head || epoch !== epochOf(epochs, seq))',
    to: 'if (seq > head)',
    tests: 'test/log/offsets.test.ts',
  },
  {
    rule: 'a page has a largest size',
    file: 'src/log/paging.ts',
    from: 'return Math.min(limit, MAX_LIMIT)',
    to: 'return limit',
    tests: 'test/log/paging.test.ts',
  },
  {
    rule: 'a writer reports when it is full',
    file: 'src/log/writer.ts',
    from: 'return this.#entries.length < MAX_WAITING',
    to: 'return this.#entries.length <= MAX_WAITING',
    tests: 'test/log/writer.test.ts',
  },
  {
    rule: 'arguments that are complete do not grow',
    file: 'src/adapters/tool-call-aggregator.ts',
    from: "if (call === undefined || call.state.argsDone || fragment === '')",
    to: "if (call === undefined || fragment === '')",
    tests: 'test/adapters/tool-call-aggregator.test.ts',
  },
  {
    rule: 'complete arguments replace streamed ones',
    file: 'src/adapters/tool-call-aggregator.ts',
    from: "if (args !== '') call.text = new GrowingText(args)\n    call.state.argsDone = true",
    to: "if (args === '?') call.text = new GrowingText(args)\n    call.state.argsDone = true",
    tests: 'test/adapters/tool-call-aggregator.test.ts',
  },
  {
    rule: 'a chat stream ends with [DONE]',
    file: 'src/dialects/chat-completions/encode.ts',
    from: 'if (this.done) frames.push(DONE)',
    to: '',
    tests: 'test/dialects',
  },
  {
    rule: 'nothing follows the end of a chat stream',
    file: 'src/dialects/chat-completions/encode.ts',
    from: 'if (this.done) return []',
    to: '',
    tests: 'test/dialects',
  },
  {
    rule: 'calls cut off by length are not run',
    file: 'src/turns/turn-ending.ts',
    from: "new Set(['length', 'content_filter', 'refusal'])",
    to: "new Set(['content_filter', 'refusal'])",
    tests: 'test/turns/tool',
  },
  {
    rule: 'a finish reason that says more than stop stays',
    file: 'src/turns/turn-ending.ts',
    from: "hasForClient && VAGUE.has(reason) ? 'tool_calls'",
    to: "hasForClient ? 'tool_calls'",
    tests: 'test/turns/tool',
  },
  {
    rule: 'readers do not see what a provider throws',
    file: 'src/turns/turn-ending.ts',
    from: "message: 'The provider stream failed'",
    to: 'message: String(inner)',
    tests: 'test/turns/provider-faults.test.ts',
  },
  {
    rule: 'tools have different names',
    file: 'src/turns/tools.ts',
    from: 'if (this.#byName.size < tools.length) {',
    to: 'if (this.#byName.size > tools.length) {',
    tests: 'test/turns/tool',
  },
  {
    rule: 'two different keys are refused',
    file: 'src/server/auth/authenticate.ts',
    from: 'if (header !== undefined && header !== key) {',
    to: "if (header === '') {",
    tests: 'test/server/auth/authenticate.test.ts',
  },
  {
    rule: 'a token opens one thread',
    file: 'src/server/auth/authenticate.ts',
    from: "return 'threadId' in grant && grant.threadId === threadId",
    to: "return 'threadId' in grant && threadId !== ''",
    tests: 'test/server/auth/token-use.test.ts',
  },
  {
    rule: 'a key has a limit of running turns',
    file: 'src/server/limits/key-limits.ts',
    from: 'if (use.turns >= runningTurns)',
    to: 'if (use.turns > runningTurns)',
    tests: 'test/server/limits/key-limits.test.ts',
  },
  {
    rule: 'a submit counts for exactly a minute',
    file: 'src/server/limits/key-limits.ts',
    from: '<= now - this.#spanMs',
    to: '< now - this.#spanMs',
    tests: 'test/server/limits/sliding-window',
  },
  {
    rule: 'every origin is allowed only with keys',
    file: 'src/server/web/origins.ts',
    from: 'if (this.isOpen && !hasKeys) {',
    to: 'if (this.isOpen && hasKeys === undefined) {',
    tests: 'test/server/web/origins.test.ts',
  },
  {
    rule: 'of two tasks at the same time the first one runs first',
    file: 'src/testing/fake-clock.ts',
    from: 'task.at < next.at',
    to: 'task.at <= next.at',
    tests: 'test/testing/fake-clock.test.ts',
  },
  {
    rule: 'a public address needs keys',
    file: 'src/cli/serve/serve.ts',
    from: 'if (keysFile !== undefined || allowPublicWithoutKeys || isLoopback(host)) return',
    to: "if (host !== '' || keysFile !== undefined || allowPublicWithoutKeys) return",
    tests: 'test/cli/serve/configuration.test.ts',
  },
]

const PARTS = ['src', 'scripts', 'test', 'package.json', 'tsconfig.json', 'vitest.config.ts']

const words = process.argv.slice(2)
const chosen = mutants.filter(({ file }) => {
  return words.length === 0 || words.some((word) => file.includes(word))
})

const root = fileURLToPath(new URL('..', import.meta.url))
const copy = mkdtempSync(join(tmpdir(), 'turnstream-mutants-'))
const survivors = []

try {
  for (const part of PARTS) {
    cpSync(join(root, part), join(copy, part), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'), 'dir')
  for (const tests of new Set(chosen.map((mutant) => mutant.tests))) {
    if (!passes(tests)) throw new Error(`${tests} fails before anything is broken`)
  }
  for (const mutant of chosen) {
    const isKilled = kills(mutant)
    if (!isKilled) survivors.push(mutant.rule)
    console.log(`${isKilled ? 'noticed ' : 'SURVIVED'}  ${mutant.rule}`)
  }
} finally {
  rmSync(copy, { recursive: true, force: true })
}
console.log(`\n${chosen.length - survivors.length} of ${chosen.length} broken rules were noticed`)
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
