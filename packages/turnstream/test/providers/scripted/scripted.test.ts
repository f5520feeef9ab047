import { describe, expect, test } from 'vitest'
import { toolsTurn } from '../../../../../test/demo-recordings.ts'
import { type FakeClock, fakeClock } from '../../../../conformance/src/index.ts'
import {
  decodeRecording,
  type Recording,
  ResponseReducer,
  type StreamEvent,
  stamp,
} from '../../../../core/src/index.ts'
import { createScriptedProvider } from '../../../src/index.ts'

const recording: Recording = toolsTurn()
const run = { runId: 'run', turnId: 'turn', threadId: 'thread' }

async function play(clock: FakeClock, speed: number, model = 'demo', events = recording) {
  const provider = createScriptedProvider({ recordings: { demo: events }, speed, clock })
  const played: StreamEvent[] = []
  const times: number[] = []
  const done = (async () => {
    for await (const event of stamp(provider.stream({ model, input: [] }, run))) {
      played.push(event)
      times.push(clock.now())
    }
  })()
  await clock.advance(60_000)
  await done
  return { played, times }
}

describe('a recording', () => {
  test('is played with the ids of its run', async () => {
    const { played } = await play(fakeClock(), Infinity)
    expect(played).toHaveLength(recording.length)
    expect(played[0]?.payload).toMatchObject({
      type: 'response_start',
      response_id: 'run',
      turn_id: 'turn',
      thread_id: 'thread',
    })
    expect(played.every(({ run_id }) => run_id === 'run')).toBe(true)
    const reducer = new ResponseReducer()
    for (const event of played) reducer.apply(event)
    expect(reducer.response).toMatchObject({ status: 'complete', provider_id: 'scripted' })
    expect(reducer.response.output_items.map(({ id }) => id)).toEqual(
      [1, 2, 3, 4, 5, 6, 7, 8, 9].map((place) => `run:${place}`),
    )
  })

  test.each([1, 2, 10])('keeps its pace at %i x', async (speed) => {
    const { times } = await play(fakeClock(), speed)
    const recorded = (recording.at(-1)?.timestamp ?? 0) - (recording[0]?.timestamp ?? 0)
    expect(times.at(-1)).toBeCloseTo(recorded / speed)
  })

  test('does not wait at full speed', async () => {
    const { times } = await play(fakeClock(), Infinity)
    expect(times.at(-1)).toBe(0)
  })

  test('is truncated without an end', async () => {
    const { played } = await play(fakeClock(), Infinity, 'demo', recording.slice(0, 10))
    expect(played.at(-1)?.payload).toMatchObject({ error: { code: 'UPSTREAM_TRUNCATED' } })
  })

  test('that does not exist is an error that lists the recordings', async () => {
    const { played } = await play(fakeClock(), Infinity, 'nope')
    expect(played.at(-1)?.payload).toMatchObject({
      error: {
        code: 'MODEL_UNKNOWN',
        message: expect.stringMatching(/available: demo.*; for other models configure/),
      },
    })
  })

  test('stops when aborted', async () => {
    const clock = fakeClock()
    const controller = new AbortController()
    const provider = createScriptedProvider({ recordings: { demo: recording }, clock })
    const stream = provider.stream({ model: 'demo', input: [] }, run, controller.signal)
    await clock.advance(1000)
    controller.abort()
    await expect(stream.toArray()).rejects.toMatchObject({ cause: { code: 'ABORTED' } })
    await clock.advance(0)
    expect(clock.pending()).toBe(0)
  })

  test('that fails while playing fails its reader', async () => {
    const broken = {
      get demo(): Recording {
        throw new Error('the disk is gone')
      },
    }
    const stream = createScriptedProvider({ recordings: broken }).stream(
      { model: 'demo', input: [] },
      run,
    )
    await expect(async () => {
      for await (const _ of stream) expect.unreachable()
    }).rejects.toMatchObject({ code: 'STREAM_ERROR', cause: { message: 'the disk is gone' } })
  })

  test.each([0, -1, Number.NaN])('cannot be played at speed %s', (speed) => {
    expect(() => createScriptedProvider({ recordings: {}, speed })).toThrow('speed')
  })
})

describe('an event file', () => {
  const line = JSON.stringify(recording[0])

  test('is a recording; blank lines and unknown types are skipped', () => {
    const novelty = { ...recording[0], type: 'novelty', payload: { type: 'novelty' } }
    expect(decodeRecording(`\n${line}\n${JSON.stringify(novelty)}\n`)).toEqual({
      ok: true,
      value: [recording[0]],
    })
  })

  test.each([
    ['', 'no events'],
    [`${line}\n{"type":`, 'line 2'],
    [`${line}\n\n{"type":"item_delta"}`, 'line 3'],
  ])('that is unreadable reports the position', (text, reason) => {
    expect(decodeRecording(text)).toMatchObject({
      ok: false,
      reason: expect.stringContaining(reason),
    })
  })
})
