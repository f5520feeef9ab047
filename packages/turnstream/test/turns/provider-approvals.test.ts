/** Calls that the provider runs itself, and about which it asks while it streams. */

import { describe, expect, test } from 'vitest'
import { payloads } from '../../../conformance/src/index.ts'
import type { StreamEventPayload, ToolCall } from '../../../core/src/index.ts'
import { answerApproval } from '../../src/turns/approvals.ts'
import { broken, call, end, answer as say } from './payloads.ts'
import { type Call, newRig, outputsOf, type Rig, storyOf, tick } from './rig.ts'

const MINUTE_MS = 60_000
const provider_metadata = { executed_by: 'provider' }

function command(id: string): StreamEventPayload[] {
  return call(id, 'command', { provider_metadata })
}

function asks(approval_id: string, call_id: string): StreamEventPayload {
  return payloads.itemDone({
    type: 'approval_request',
    id: `q-${approval_id}`,
    approval_id,
    call_id,
  })
}

/** The provider asks about its call and tells what was decided. */
async function decide({ run, say: write, stream, signal }: Call): Promise<void> {
  write(...command('1'), asks('p', 'call-1'))
  const isApproved = await run.isApproved?.('p')
  if (signal.aborted) return
  write(...say('2', isApproved === true ? 'It runs.' : 'It does not run.'), end())
  stream.complete()
}

async function waitingRig(options: Parameters<typeof newRig>[0] = {}): Promise<Rig> {
  const rig = newRig({ rounds: [(made) => void decide(made)], ...options })
  await rig.submit()
  await tick(rig.clock)
  return rig
}

async function cardOf({ log }: Pick<Rig, 'log'>): Promise<ToolCall | undefined> {
  const outputs = await outputsOf(log)
  return outputs.findLast((each): each is ToolCall => each.type === 'tool_call')
}

describe('V8 a call that the provider asks about', () => {
  test('is shown with the request, then with the answer, and the provider gets it', async () => {
    const rig = await waitingRig()
    expect(await cardOf(rig)).toMatchObject({
      itemId: 'r:1',
      approval: { id: 'approval-2', status: 'requested' },
    })
    await answerApproval(rig.log, 'r', 'approval-2', { approved: true, by: 'ops', at: 7 })
    await rig.settled()
    expect((await storyOf(rig.log)).slice(2)).toEqual([
      'done r:1 command({})',
      'done r:2 approval-2 for call-1',
      'done r:3 approval-2 approved ',
      'open r:4 message',
      'r:4 + It runs.',
      'done r:4 It runs.',
      'error r:1 ITEM_CANCELLED',
      'end stop ?',
    ])
    expect(await cardOf(rig)).toMatchObject({ approval: { status: 'approved', answeredBy: 'ops' } })
    expect(rig.errors).toEqual([])
    expect(rig.clock.pending()).toBe(0)
  })

  test('is declined by a client', async () => {
    const rig = await waitingRig()
    await answerApproval(rig.log, 'r', 'approval-2', { approved: false, at: 7 })
    await rig.settled()
    expect(await storyOf(rig.log)).toContain('done r:4 It does not run.')
  })

  test('is declined when nobody answers in time', async () => {
    const rig = await waitingRig()
    await rig.clock.advance(10 * MINUTE_MS)
    await rig.settled()
    expect(await storyOf(rig.log)).toContain('done r:3 approval-2 declined timeout')
    expect(await storyOf(rig.log)).toContain('done r:4 It does not run.')
    expect(rig.clock.pending()).toBe(0)
  })

  test('is declined when the turn is cancelled, and when it shuts down', async () => {
    for (const stop of ['cancel', 'shutdown'] as const) {
      const decisions: unknown[] = []
      const rig = newRig({
        rounds: [
          ({ run, say: write }) => {
            write(...command('1'), asks('p', 'call-1'))
            void run.isApproved?.('p').then((decision) => decisions.push(decision))
          },
        ],
      })
      await rig.submit()
      await tick(rig.clock)
      if (stop === 'cancel') await rig.log.requestCancel('r', 'enough')
      else void rig.runner.shutdown(30_000)
      await rig.clock.advance(1000)
      await rig.settled()
      expect(decisions).toEqual([false])
      expect((await cardOf(rig))?.status).toBe('error')
    }
  })

  test('is declined when the provider fails meanwhile, and later answers change nothing', async () => {
    const decisions: unknown[] = []
    const rig = newRig({
      rounds: [
        ({ run, say: write, stream }) => {
          write(...command('1'), asks('p', 'call-1'), broken('GONE'))
          stream.complete()
          void run.isApproved?.('p').then((decision) => decisions.push(decision))
        },
      ],
    })
    await rig.submit()
    await rig.settled()
    const late = await answerApproval(rig.log, 'r', 'approval-2', { approved: true, at: 7 })
    expect(late).toEqual({ stored: false })
    expect(decisions).toEqual([false])
    expect((await storyOf(rig.log)).at(-1)).toBe('end GONE')
  })

  test('is asked about once, and never before it is known', async () => {
    const decisions: unknown[] = []
    const rig = newRig({
      rounds: [
        ({ run, say: write }) => {
          write(
            asks('early', 'call-1'),
            ...command('1'),
            asks('p', 'call-1'),
            asks('again', 'call-1'),
          )
          for (const id of ['early', 'again']) {
            void run.isApproved?.(id).then((decision) => decisions.push([id, decision]))
          }
        },
      ],
    })
    await rig.submit()
    await tick(rig.clock)
    expect(decisions).toEqual([
      ['early', false],
      ['again', false],
    ])
    expect((await storyOf(rig.log)).filter((line) => line.includes(' for '))).toEqual([
      'done r:2 approval-2 for call-1',
    ])
  })

  test('is declined after 100 others of the turn', async () => {
    const decisions: unknown[] = []
    const ids = Array.from({ length: 101 }, (_, at) => `${at}`)
    const rig = newRig({
      rounds: [
        ({ run, say: write }) => {
          for (const id of ids) write(...command(id), asks(id, `call-${id}`))
          void run.isApproved?.('100').then((decision) => decisions.push(decision))
        },
      ],
    })
    await rig.submit()
    await tick(rig.clock)
    expect(decisions).toEqual([false])
  })

  test('is declined when its answer cannot be stored', async () => {
    const rig = await waitingRig({ caps: { maxTurnItems: 2 } })
    await answerApproval(rig.log, 'r', 'approval-2', { approved: true, at: 7 })
    await rig.settled()
    expect((await storyOf(rig.log)).at(-1)).toBe('end TURN_ITEM_LIMIT')
  })
})

test('V8 a provider that asks nobody is not kept waiting after its round', async () => {
  const rig = newRig({ rounds: [[...command('1'), end()]] })
  await rig.submit()
  await rig.settled()
  const isApproved = rig.provider.calls[0]?.run.isApproved
  expect(await isApproved?.('late')).toBe(false)
})
