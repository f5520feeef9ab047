import { expect, test } from 'vitest'
import { recordToolsTurn } from '../../src/cli/recordings.ts'
import { demo } from '../../src/cli/replay.ts'
import { decodeText } from '../../src/protocol/json.ts'
import { streamMessageSchema, streamOutputSchema } from '../../src/protocol/stream-output.ts'
import { fakeTerminal } from './fake-terminal.ts'

async function play(...args: string[]): Promise<{ lines: string[]; ms: number }> {
  const { terminal, clock, output } = fakeTerminal()
  let ms = Number.NaN
  const played = demo.run(args, terminal).then(() => {
    ms = clock.now()
  })
  await clock.advance(60_000)
  await played
  return { lines: output().trimEnd().split('\n'), ms }
}

test('prints a dot per delta and a line per snapshot', async () => {
  const { lines } = await play('--speed', '0')
  const recording = recordToolsTurn()
  const deltas = recording.filter(({ type }) => type === 'item_delta').length
  const rows = lines.filter((line) => /^·* *(turn|message|thinking|tool)/.test(line))
  const dots = rows.join('').split('·').length - 1
  expect(dots).toBeGreaterThan(deltas / 2)
  expect(dots).toBeLessThanOrEqual(deltas)
  expect(rows.at(0)).toContain('turn_started')
  expect(rows.at(-1)).toContain('turn_complete')
  expect(lines.at(-2)).toBe(
    `${recording.length} events in, ${rows.length} snapshots out, 9 items in the Response.`,
  )
  for (const line of rows) expect(line.length).toBeLessThanOrEqual(120)
})

test('prints processed log records with --json', async () => {
  const { lines } = await play('--json', '--speed', '0')
  const outputs = lines.map((line) => {
    const message = decodeText(streamMessageSchema, line)
    if (!message.ok) throw new Error(message.reason)
    const output = decodeText(streamOutputSchema, message.value.payload)
    if (!output.ok) throw new Error(output.reason)
    return output.value
  })
  expect(outputs.at(0)).toMatchObject({ type: 'turn_started' })
  expect(outputs.at(-1)).toMatchObject({ type: 'turn_complete', status: 'complete' })
})

test('takes half the time at twice the speed', async () => {
  const [slow, fast] = [await play('--speed', '1'), await play('--speed', '2')]
  expect(fast.ms).toBeCloseTo(slow.ms / 2)
  expect((await play('--speed', '0')).ms).toBe(0)
})
