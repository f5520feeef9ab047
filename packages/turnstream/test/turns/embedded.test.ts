import { describe, expect, test } from 'vitest'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import { systemClock } from '../../../core/src/async/clock.ts'
import type { StreamEvent } from '../../../core/src/index.ts'
import type { TurnLog } from '../../../core/src/log/turn-log.ts'
import { Providers, TurnRunner, type TurnRunnerOptions } from '../../src/server.ts'
import { folderOfTest, openLog } from '../log/embedded/support.ts'
import { answer, call, delta, end, line, open, usage } from './payloads.ts'
import { enveloped, PROMPT, puppet, type Round } from './rig.ts'

function runnerOf(
  log: TurnLog,
  rounds: readonly Round[],
  options: Partial<TurnRunnerOptions> = {},
) {
  const provider = puppet(rounds)
  const errors: unknown[] = []
  const runner = new TurnRunner({
    log,
    instance: 'embedded',
    providers: new Providers([{ provider, models: [], defaultModel: 'small' }]),
    onError: (error) => errors.push(error),
    ...options,
  })
  return { runner, provider, errors }
}

/** Follows a log to its end, as a reader does. */
async function follow(log: TurnLog, turnId: string): Promise<string[]> {
  const lines: string[] = []
  for await (const record of log.tail(turnId, 'events', '0-0', new AbortController().signal)) {
    if ('data' in record) lines.push(line((JSON.parse(record.data) as StreamEvent).payload))
  }
  for await (const record of log.tail(turnId, 'processed', '0-0', new AbortController().signal)) {
    if ('resync' in record) throw new Error(record.resync)
  }
  return lines.slice(3)
}

describe('a turn in the embedded log', () => {
  test('runs, is read live and stays in the history', async () => {
    const log = await openLog(folderOfTest())
    const rounds = [
      [...call('1', 'add'), end({ finish_reason: 'tool_calls', usage: usage(1, 2) })],
      [...answer('1', 'So'), end({ usage: usage(3, 4) })],
      [end()],
    ]
    const tools = [{ name: 'add', parameters: {}, execute: () => 'added' }]
    const { runner, provider, errors } = runnerOf(log, rounds, { tools })
    await runner.start()
    const { turnId, threadId } = await runner.submit({ input: [PROMPT] })
    expect(await follow(log, turnId)).toEqual([
      `open ${turnId}:1 function_call`,
      `${turnId}:1 + {}`,
      `done ${turnId}:1 add({})`,
      'usage 3',
      `open ${turnId}:2 function_call_output`,
      `done ${turnId}:2 call-1 = added`,
      `open ${turnId}:3 message`,
      `${turnId}:3 + So`,
      `done ${turnId}:3 So`,
      'usage 10',
      'end stop 10',
    ])
    expect(await log.getTurn(turnId)).toMatchObject({ status: 'complete', usage: usage(4, 6) })
    const next = await runner.submit({ threadId, input: [PROMPT] })
    await follow(log, next.turnId)
    expect(provider.calls[2]?.request.input.map(({ type }) => type)).toEqual([
      'message',
      'function_call',
      'function_call_output',
      'message',
      'message',
    ])
    await runner.shutdown(1000)
    expect(errors).toEqual([])
  })

  test('is created once by concurrent submits', async () => {
    const log = await openLog(folderOfTest())
    const { runner, provider } = runnerOf(log, [[end()]])
    const submission = { runId: 'run', input: [PROMPT] }
    const all = await Promise.all(Array.from({ length: 20 }, () => runner.submit(submission)))
    expect(new Set(all.map((each) => JSON.stringify(each))).size).toBe(1)
    await follow(log, 'run')
    expect(provider.calls).toHaveLength(1)
    await runner.shutdown(1000)
  })

  test('is cancelled', async () => {
    const log = await openLog(folderOfTest())
    const { runner, provider } = runnerOf(log, [({ say }) => say(open('a'), delta('a', 'Half'))])
    await runner.submit({ runId: 'run', input: [PROMPT] })
    await provider.called(1)
    const followed = follow(log, 'run')
    expect(await runner.cancel('run', 'enough')).toBe(true)
    expect((await followed).at(-1)).toBe('aborted enough')
    expect(await runner.cancel('run', 'more')).toBe(false)
    await runner.shutdown(1000)
  })

  test('is ended by a shutdown', async () => {
    const log = await openLog(folderOfTest())
    const { runner } = runnerOf(log, [])
    const submits = Array.from({ length: 10 }, (_, index) =>
      runner.submit({ runId: `run-${index}`, input: [PROMPT] }),
    )
    await Promise.all(submits)
    await runner.shutdown(0)
    const turns = await Promise.all(submits.map(async (each) => log.getTurn((await each).turnId)))
    for (const turn of turns)
      expect(turn).toMatchObject({ sealed: true, error: { code: 'SERVER_SHUTDOWN' } })
  })

  test('D5 is ended at the next start, if its process died', async () => {
    const folder = folderOfTest()
    const dead = await openLog(folder)
    const lease = await dead.create({ turnId: 'run', threadId: 'h', owner: 'the dead' }, 3_600_000)
    const event = { ...enveloped(open('run:1')), event_id: '00000000-0000-8000-a000-000000000001' }
    await appendTo(dead, lease, 'events', [{ seq: 1, data: JSON.stringify(event) }])
    await dead.close()
    const log = await openLog(folder)
    const { runner, errors } = runnerOf(log, [])
    await runner.start()
    expect(await log.getTurn('run')).toMatchObject({
      sealed: true,
      error: { code: 'PRODUCER_LOST' },
    })
    await runner.shutdown(0)
    expect(errors).toEqual([])
  })

  test('runs alongside many others', async () => {
    const log = await openLog(folderOfTest(), { clock: systemClock })
    const pieces = Array.from({ length: 100 }, (_, index) => delta('a', `${index} `))
    const round: Round = [open('a'), ...pieces, end()]
    const { runner, errors } = runnerOf(
      log,
      Array.from({ length: 30 }, () => round),
    )
    const submitted = await Promise.all(
      Array.from({ length: 30 }, () => runner.submit({ input: [PROMPT] })),
    )
    const lengths = submitted.map(async ({ turnId }) => (await follow(log, turnId)).length)
    expect(new Set(await Promise.all(lengths))).toEqual(new Set([103]))
    await runner.shutdown(1000)
    expect(errors).toEqual([])
  })
})
