/** What becomes of a turn when the app-server misbehaves. A real one cannot be made to. */

import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import { type ProviderRequest, type StreamEventPayload, sleep } from '../../../core/src/index.ts'
import type { Attachment, OutputItem } from '../../../core/src/protocol/output-item.ts'
import { findCodex } from '../../src/codex/binary.ts'
import {
  type CodexProvider,
  type CodexProviderOptions,
  createCodexProvider,
} from '../../src/server.ts'

const SCRIPT = fileURLToPath(new URL('scripted-app-server.mjs', import.meta.url))

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'turnstream-codex-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

function start(MODE: string, options: Partial<CodexProviderOptions> = {}): CodexProvider {
  const home = folder()
  const provider = createCodexProvider({
    binary: SCRIPT,
    home: () => home,
    models: ['m'],
    modelProvider: { baseUrl: 'http://127.0.0.1:1/v1', keyVariable: 'MODE' },
    env: { PATH: process.env['PATH'], MODE },
    ...options,
  })
  onTestFinished(() => provider.stop())
  return provider
}

const REQUEST: ProviderRequest = {
  model: 'm',
  input: [{ type: 'message', id: 'u', origin: 'user', content: 'hi' }],
}
function messageWith(attachment: Attachment): OutputItem {
  const attachments = [attachment]
  return { type: 'message', id: 'u', origin: 'user', content: 'see', attachments }
}
const RUN = { runId: 'r', turnId: 't', threadId: 'h' }

async function ask(provider: CodexProvider, request = REQUEST): Promise<StreamEventPayload[]> {
  return provider.stream(request, RUN).toArray()
}

describe('an app-server that', () => {
  test.each([
    ['deaf', 'never completes the handshake', 'UPSTREAM_UNREACHABLE'],
    ['exits', 'exits at once', 'UPSTREAM_UNREACHABLE'],
    ['managed', 'has another provider by a system-wide configuration', 'UPSTREAM_UNREACHABLE'],
    ['redirected', 'would call another address', 'UPSTREAM_UNREACHABLE'],
    ['falls back', 'falls back to its default provider', 'UPSTREAM_MALFORMED'],
    ['threadless', 'starts no thread', 'UPSTREAM_MALFORMED'],
    ['refuses', 'refuses the turn', 'OPTION_INVALID'],
    ['dies', 'dies with two requests unanswered', 'UPSTREAM_TRUNCATED'],
    ['forgets', 'is too busy for the history', 'UPSTREAM_UNREACHABLE'],
    ['silent', 'goes silent', 'UPSTREAM_TIMEOUT'],
    ['endless', 'never finishes', 'UPSTREAM_TIMEOUT'],
  ])('(%s) %s fails the turn with %s', async (mode, _what, code) => {
    const limit = {
      deaf: { requestTimeoutMs: 300 },
      silent: { idleTimeoutMs: 300 },
      endless: { maxTurnMs: 300 },
    }[mode]
    const events = await ask(start(mode, limit))
    expect(events.at(-1)).toMatchObject({ type: 'response_error', error: { code } })
  })

  test('writes other lines and requests approval is refused, and the turn continues', async () => {
    const events = await ask(start('asks'))
    expect(events).toContainEqual(
      expect.objectContaining({
        type: 'item_done',
        final_item: expect.objectContaining({ content: 'Refused with -32601.' }) as unknown,
      }),
    )
    expect(events.at(-1)).toMatchObject({ type: 'response_done', finish_reason: 'stop' })
  })

  test('exits every time is not started again at once', async () => {
    const logged: string[] = []
    const provider = start('exits', { onLog: (line) => logged.push(line) })
    const counts = { threads: 0, turns: 0, restarts: 0, recycles: 0 }
    expect(provider.health).toEqual({ state: 'idle', ...counts })
    for (let at = 0; at < 3; at++) await ask(provider)
    expect(provider.health).toMatchObject({
      state: 'failing',
      lastError: expect.stringContaining('exited with code 3') as unknown,
    })
    expect(logged.join('\n')).toContain('started with')
    expect(logged.join('\n')).not.toContain('sk-ant')
  })
})

describe('a complete call of a tool', () => {
  const request = { ...REQUEST, tools: [{ name: 'weather', parameters: { type: 'object' } }] }
  const call = { type: 'function_call', call_id: 'call-1', arguments: '{"city":"Paris"}' }

  test.each([
    ['breaks off', { type: 'response_error', error: { code: 'UPSTREAM_TRUNCATED' } }],
    ['runs out', { type: 'response_done', finish_reason: 'length' }],
  ])('before a response that %s is handed over, then what happened', async (fate, end) => {
    const events = await ask(start(`calls, ${fate}`, { quietPeriodMs: 20 }), request)
    const items = events.flatMap((event) => (event.type === 'item_done' ? event.final_item : []))
    expect(items).toMatchObject([call])
    expect(events.at(-1)).toMatchObject(end)
  })

  test('of a complete response is never answered, however slow the reader is', async () => {
    const logged: string[] = []
    const onLog = (line: string) => logged.push(line)
    const provider = start('calls, completes', { quietPeriodMs: 20, onLog })
    const events: StreamEventPayload[] = []
    for await (const event of provider.stream(request, RUN)) {
      await sleep(50)
      events.push(event)
    }
    expect(events.at(-1)).toMatchObject({ type: 'response_done', finish_reason: 'tool_calls' })
    expect(logged).not.toContain('the call was answered')
  })
})

describe('a turn is interrupted', () => {
  test.each([
    ['is too busy for the history', 'forgets', {}],
    ['goes silent', 'silent', { idleTimeoutMs: 300 }],
    ['never finishes', 'endless', { maxTurnMs: 300 }],
  ])('when the app-server %s', async (_what, mode, limit) => {
    const logged: string[] = []
    const clock = fakeClock()
    const answer = ask(start(mode, { ...limit, clock, onLog: (line) => logged.push(line) }))
    await eventually(() => expect(logged).toContain('started turn-1'))
    await clock.advance(300)
    await answer
    await eventually(() => expect(logged).toContain('interrupted turn-1'))
  })

  test('at its cancellation, without a delay', async () => {
    const logged: string[] = []
    // Time stands still.
    const clock = fakeClock()
    const provider = start('endless', { clock, onLog: (line) => logged.push(line) })
    const abort = new AbortController()
    const stream = provider.stream(REQUEST, RUN, abort.signal)
    for await (const { type } of stream) if (type === 'item_delta') break
    abort.abort()
    await eventually(() => expect(logged).toContain('interrupted turn-1'))
  })
})

describe('a turn is never started', () => {
  test('when its time is over before it has a thread', async () => {
    const logged: string[] = []
    const clock = fakeClock()
    const home = folder()
    const options = { clock, home: () => home, onLog: (line: string) => logged.push(line) }
    const answer = ask(start('late', { ...options, maxTurnMs: 300 }))
    await eventually(() => expect(logged).toContain('waiting'))
    await clock.advance(300)
    writeFileSync(join(home, 'go'), '')
    expect((await answer).at(-1)).toMatchObject({ error: { code: 'UPSTREAM_TIMEOUT' } })
    await eventually(() => expect(logged).toContain('unsubscribed'))
    expect(logged).not.toContain('started turn-1')
  })
})

describe('the process', () => {
  test('is not asked for notifications that no turn needs', async () => {
    const logged: string[] = []
    await ask(start('answers', { onLog: (line) => logged.push(line) }))
    await eventually(() => expect(logged.join('\n')).toContain('opted out of'))
    expect(logged.join('\n')).toContain('thread/status/changed')
    expect(logged.join('\n')).not.toContain('item/agentMessage/delta')
  })

  test.each([{ maxThreads: 1 }, { maxResidentBytes: 1 }])('is replaced after %j', async (limit) => {
    const provider = start('answers', limit)
    await ask(provider)
    const { pid } = provider.health
    expect((await ask(provider)).at(-1)).toMatchObject({ type: 'response_done' })
    expect(provider.health).toMatchObject({ threads: 1, restarts: 0, recycles: 1 })
    expect(provider.health.pid).not.toBe(pid)
  })

  test('is replaced when it stops answering', async () => {
    const logged: string[] = []
    const clock = fakeClock()
    const provider = start('hangs', { clock, onLog: (line) => logged.push(line) })
    const count = () => logged.filter((line) => line === 'no answer').length
    for (const turns of [1, 2]) {
      const answer = ask(provider)
      await eventually(() => expect(count()).toBe(turns))
      await clock.advance(20_000)
      expect((await answer).at(-1)).toMatchObject({ error: { code: 'UPSTREAM_TIMEOUT' } })
      expect(provider.health).toMatchObject({ threads: 1, restarts: 0, recycles: turns - 1 })
    }
  })

  test.each(['catalog.json', 'work', '.'])(
    'is replaced when %s of its home is gone',
    async (name) => {
      const home = folder()
      const provider = start('answers', { home })
      await ask(provider)
      const [own = ''] = readdirSync(home)
      rmSync(join(home, own, name), { recursive: true })
      expect((await ask(provider)).at(-1)).toMatchObject({ type: 'response_done' })
      expect(provider.health).toMatchObject({ restarts: 0, recycles: 1 })
    },
  )

  test('keeps its configuration while others replace it, and its home goes with it', async () => {
    const home = folder()
    const provider = start('answers', { maxThreads: 2, home })
    for (let at = 0; at < 6; at++) {
      expect((await ask(provider)).at(-1)).toMatchObject({ type: 'response_done' })
    }
    expect(provider.health).toMatchObject({ recycles: 2, restarts: 0 })
    await eventually(() => expect(readdirSync(home)).toHaveLength(1))
    await provider.stop()
    expect(readdirSync(home)).toEqual([])
  })

  test.each(['managed', 'exits'])('that did not start (%s) leaves no home behind', async (mode) => {
    const home = folder()
    await ask(start(mode, { home }))
    expect(readdirSync(home)).toEqual([])
  })

  test('gets the key under a name that no other provider reads, and no address of one', async () => {
    const home = folder()
    const secrets = { OPENAI_API_KEY: 'answers', OPENAI_BASE_URL: 'https://other.test' }
    const modelProvider = { baseUrl: 'http://127.0.0.1:1/v1', keyVariable: 'OPENAI_API_KEY' }
    const env = { PATH: process.env['PATH'], ...secrets, CODEX_API_KEY: 'sk-other' }
    const provider = start('', { home, modelProvider, env })
    expect((await ask(provider)).at(-1)).toMatchObject({ type: 'response_done' })
    const variables = readFileSync(`/proc/${provider.health.pid}/environ`, 'utf8')
    expect(variables).toContain('TURNSTREAM_UPSTREAM_KEY=answers')
    expect(variables).not.toMatch(/OPENAI|CODEX_API_KEY|other\.test/)
  })

  test('that failed to start is reported for ten seconds', async () => {
    const clock = fakeClock()
    const provider = start('answers', { binary: '/nowhere/codex', clock })
    expect((await ask(provider)).at(-1)).toMatchObject({ error: { code: 'UPSTREAM_UNREACHABLE' } })
    expect(provider.health).toMatchObject({ state: 'failing' })
    await clock.advance(9_999)
    expect(provider.health.state).toBe('failing')
    await clock.advance(1)
    expect(provider.health.state).toBe('idle')
  })
})

test('a provider that was stopped fails the next turn, and its process is gone', async () => {
  const provider = start('answers')
  expect((await ask(provider)).at(-1)).toMatchObject({ type: 'response_done' })
  expect(provider.health).toMatchObject({ state: 'running', threads: 1 })
  await provider.stop()
  expect((await ask(provider)).at(-1)).toMatchObject({ error: { code: 'UPSTREAM_UNREACHABLE' } })
})

test('a turn that was aborted before it began yields nothing', async () => {
  const stream = start('silent').stream(REQUEST, RUN, AbortSignal.abort())
  await expect(stream.toArray()).rejects.toThrow('abort')
})

test.each([
  [{ thinkingBudget: 1 }, 'thinkingBudget'],
  [{ toolChoice: { name: 'x' } }, 'toolChoice'],
  [
    { input: [messageWith({ type: 'file', media_type: 'text/plain', data: 'eA==' })] },
    'attachments',
  ],
])('%j is refused by name', async (more, name) => {
  const events = await ask(start('answers'), { ...REQUEST, ...more })
  expect(events.at(-1)).toMatchObject({ error: { code: 'OPTION_INVALID' } })
  expect(JSON.stringify(events.at(-1))).toContain(name)
})

describe('the API', () => {
  test.each([{}, { keyVariable: 'MODE' }, { baseUrl: '' }])(
    'is never left to codex: %j is refused',
    (modelProvider) => {
      expect(() => start('answers', { modelProvider })).toThrow(
        expect.objectContaining({ code: 'OPTION_INVALID' }),
      )
    },
  )

  test('is that of a login', () => {
    expect(() => start('answers', { modelProvider: { usesLogin: true } })).not.toThrow()
  })
})

describe('the binary', () => {
  test('is found in the PATH', () => {
    const bin = folder()
    copyFileSync(SCRIPT, join(bin, 'codex'))
    chmodSync(join(bin, 'codex'), 0o755)
    expect(findCodex(undefined, `/nowhere:${bin}`)).toBe(join(bin, 'codex'))
  })

  test('that is missing is named with what to do', () => {
    expect(() => findCodex(undefined, '/nowhere')).toThrow('npm install -g @openai/codex')
    expect(() => findCodex('/nowhere/codex')).toThrow('/nowhere/codex is not executable')
  })
})
