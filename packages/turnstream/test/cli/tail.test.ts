import { describe, expect, test } from 'vitest'
import { ROUTES } from '../../../core/src/protocol/names.ts'
import { tail } from '../../src/cli/tail.ts'
import { cuttingProxy } from './cutting-proxy.ts'
import { startGateway } from './gateway.ts'
import { patientTerminal } from './patient-terminal.ts'
import { serverWith, sse } from './sse-server.ts'
import { freePort } from './support.ts'

// Real connections, on a machine that runs everything else at the same time.
const PATIENCE = { timeout: 30_000 }

async function submit(url: string, turnId: string, model = 'scripted/answer'): Promise<void> {
  await fetch(`${url}${ROUTES.submit}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ turnId, prompt: 'Hello', model }),
  })
}

async function run(...args: string[]) {
  const { terminal, output, errors, statuses, waits } = patientTerminal()
  const code = await tail.run(args, terminal)
  const lines = output() === '' ? [] : output().trimEnd().split('\n')
  return { code, lines, errors: errors(), statuses, waits }
}

const parsed = (lines: string[]) => lines.map((line) => JSON.parse(line) as Record<string, unknown>)

describe('a turn', PATIENCE, () => {
  test('is printed as lines until its end', async () => {
    const { url } = await startGateway({ speed: 40 })
    await submit(url, 'turn-1')
    const { code, lines } = await run('turn-1', '--url', url)
    expect(code).toBe(0)
    expect(lines[0]).toMatch(/^\S+ +turn_started +scripted answer$/)
    expect(lines).toContainEqual(
      expect.stringMatching(/^\S+ +message complete +5 characters: Hello$/),
    )
    expect(lines.at(-1)).toMatch(/^1-\d+ +turn_complete +complete, \d+ tokens$/)
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(120)
  })

  test('that has ended is printed completely, and as sent with --json', async () => {
    const { url, gateway, log } = await startGateway()
    await submit(url, 'turn-1', 'scripted/tools')
    expect((await run('turn-1', '--url', url)).code).toBe(0)
    expect(gateway.turns.running).toBe(0)
    const { code, lines } = await run('turn-1', '--url', url, '--json')
    expect(code).toBe(0)
    const { records } = await log.snapshot('turn-1')
    expect(parsed(lines)).toEqual(records.map(({ data }) => JSON.parse(data) as unknown))
  })

  test('that failed exits with 1', async () => {
    const { url } = await startGateway()
    await submit(url, 'turn-1', 'scripted/error')
    const { code, lines } = await run('turn-1', '--url', url)
    expect(code).toBe(1)
    expect(lines.at(-1)).toMatch(/turn_error +overloaded_error: /)
    expect(lines.at(-2)).toMatch(/message error .*overloaded_error/)
    expect((await run('turn-1', '--url', url, '--raw')).code).toBe(1)
  })

  test('that was cancelled exits with 1', async () => {
    const { url } = await startGateway({ speed: 1 })
    await submit(url, 'turn-1', 'scripted/long')
    const following = [run('turn-1', '--url', url), run('turn-1', '--url', url, '--raw')]
    await fetch(`${url}${ROUTES.runCancel.replace(':runId', 'turn-1')}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    const [snapshots, raw] = await Promise.all(following)
    expect([snapshots?.code, raw?.code]).toEqual([1, 1])
    expect(snapshots?.lines.at(-1)).toMatch(/turn_complete +aborted/)
    expect(raw?.lines.at(-1)).toMatch(/turn_aborted_by_user/)
  })
})

describe('raw events', PATIENCE, () => {
  test('are printed as lines and as JSON', async () => {
    const { url } = await startGateway()
    await submit(url, 'turn-1')
    const { code, lines } = await run('turn-1', '--url', url, '--raw', '--json')
    expect(code).toBe(0)
    const types = parsed(lines).map(({ type }) => type)
    expect(types[0]).toBe('response_start')
    expect(types.at(-1)).toBe('response_done')
    expect(types.filter((type) => type === 'item_delta').length).toBeGreaterThan(100)
    const shown = await run('turn-1', '--url', url, '--raw')
    expect(shown.lines).toHaveLength(lines.length)
    expect(shown.lines[0]).toMatch(/^1-1 +response_start +\{"response_id":"turn-1"/)
  })

  test('start after an offset', async () => {
    const { url } = await startGateway()
    await submit(url, 'turn-1')
    const all = await run('turn-1', '--url', url, '--raw')
    const rest = await run('turn-1', '--url', url, '--raw', '--from', '1-10')
    expect(rest.lines).toEqual(all.lines.slice(10))
    const nothing = await run('turn-1', '--url', url, '--raw', '--from', `1-${all.lines.length}`)
    expect(nothing).toMatchObject({ code: 0, lines: [] })
  })
})

describe('a lost connection', PATIENCE, () => {
  test.each([['--raw'], ['--json']])('with %s neither loses nor repeats a line', async (flag) => {
    const { url } = await startGateway({ speed: 20 })
    await submit(url, 'turn-1', 'scripted/thinking')
    let streams = 0
    const proxy = await cuttingProxy(url, (line) => {
      if (!line.startsWith('GET')) return undefined
      streams += 1
      return streams < 8 ? 3000 : undefined
    })
    const cut = await run('turn-1', '--url', proxy.url, flag, '--json')
    expect(cut.code).toBe(0)
    expect(cut.waits.length).toBeGreaterThan(1)
    expect(cut.statuses).toContainEqual(expect.stringMatching(/^connection lost/))
    expect(cut.statuses.at(-1)).toBe('')
    const whole = await run('turn-1', '--url', url, flag, '--json')
    expect(new Set(cut.lines).size).toBe(cut.lines.length)
    // A reader that joined earlier has seen more updates of a growing text.
    if (flag === '--raw') expect(cut.lines).toEqual(whole.lines)
    else expect(cut.lines).toEqual(expect.arrayContaining(whole.lines))
  })
})

test(
  'a reconnect repeats no snapshot; unknown types and frames are skipped',
  PATIENCE,
  async () => {
    const turn = { turnId: 'turn', threadId: 'thread' }
    const frame = (data: object, event = '') => `${event}data: ${JSON.stringify(data)}\n\n`
    const message = (content: string) =>
      frame({ type: 'message', ...turn, itemId: 'a', status: 'update', content, origin: 'agent' })
    const { url } = await serverWith(
      (response) => sse(response).end(message('One') + frame({ type: 'novelty' })),
      (response) =>
        sse(response).end(
          [
            message('One'),
            frame({}, 'event: resync\n'),
            'data: no JSON\n\n',
            message('One two'),
            frame({ type: 'turn_complete', ...turn, status: 'complete' }),
          ].join(''),
        ),
    )
    const { code, lines } = await run('turn', '--url', url, '--json')
    expect([code, parsed(lines).map(({ content }) => content)]).toEqual([
      0,
      ['One', 'One two', undefined],
    ])
  },
)

describe('errors', PATIENCE, () => {
  test('an unknown turn', async () => {
    const { url } = await startGateway()
    const { code, errors } = await run('nowhere', '--url', url)
    expect([code, errors]).toEqual([1, 'turnstream: Unknown turn: nowhere\n'])
    const { lines } = await run('nowhere', '--url', url, '--json')
    expect(parsed(lines)).toMatchObject([{ error: { code: 'TURN_UNKNOWN' } }])
  })

  test('an invalid cursor', async () => {
    const { url } = await startGateway()
    await submit(url, 'turn-1')
    const { code, errors } = await run('turn-1', '--url', url, '--from', 'middle')
    expect(code).toBe(1)
    expect(errors).toContain('Invalid cursor')
  })

  test('no gateway', async () => {
    const { code, errors } = await run('turn-1', '--url', `http://localhost:${await freePort()}`)
    expect(code).toBe(1)
    expect(errors).toContain('start one with "turnstream serve')
  })

  test.each([[[]], [['a', 'b']], [['a', '--nonsense']]])('%j is a usage error', async (args) => {
    await expect(run(...args)).rejects.toThrow(/one turn|nonsense/)
  })
})

test('a stream that ends before its turn exits with 1', PATIENCE, async () => {
  const { url } = await serverWith((response) => response.writeHead(204).end())
  const { code, errors } = await run('turn-1', '--url', url)
  expect(code).toBe(1)
  expect(errors).toContain('the stream of turn turn-1 ended before the turn did')
  expect((await run('turn-1', '--url', url, '--from', '1-9')).code).toBe(0)
})
