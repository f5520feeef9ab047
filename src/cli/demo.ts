import { StreamProcessor } from '../processor/stream-processor.ts'
import type { StreamMessage, StreamOutput } from '../protocol/stream-output.ts'
import { ResponseReducer } from '../reducer/reduce.ts'
import { defineCommand, EXIT } from './command.ts'
import { recordToolsTurn } from './recordings/built-in.ts'
import { RECORDED } from './recordings/script.ts'
import { paced, parseSpeed, SPEED_OPTION } from './replay.ts'
import type { Terminal } from './terminal.ts'
import { clip, describeOutput, jsonLine } from './text.ts'

export const demo = defineCommand({
  name: 'demo',
  summary: 'play a recorded turn and watch deltas become snapshots',
  usage: ['turnstream demo [--speed <n>] [--json]'],
  options: {
    speed: SPEED_OPTION,
    json: { about: 'each snapshot as the record that a log keeps, one to a line' },
  },
  examples: ['turnstream demo --speed 4'],
  exitCodes: '0 it was played · 2 the command makes no sense',
  async run({ values }, terminal) {
    const speed = parseSpeed(values.speed)
    const { clock } = terminal
    const view: View = values.json
      ? { snapshot: (message) => terminal.write(jsonLine(message)) }
      : lineView(terminal)
    const reducer = new ResponseReducer()
    const processor = new StreamProcessor({ ...RECORDED, clock, onEmit: view.snapshot })
    const recording = recordToolsTurn()
    await view.begin?.()
    for await (const event of paced(recording, speed, clock)) {
      if (event.type === 'item_delta') await view.delta?.()
      reducer.apply(event)
      await processor.processEvent(event)
    }
    await processor.destroy()
    await view.end?.(recording.length, reducer.response.output_items.length)
    return EXIT.done
  },
})

interface View {
  begin?(): Promise<void>
  delta?(): Promise<void> | undefined
  readonly snapshot: (message: StreamMessage, output: StreamOutput) => Promise<void>
  end?(events: number, items: number): Promise<void>
}

const DELTA_COLUMN = 34

/** A dot for each delta that came in, and behind the dots the snapshot that went out. */
function lineView({ write, style, columns }: Terminal): View {
  let dots = 0
  let snapshots = 0

  return {
    begin: () =>
      write(
        `${style('bold', 'A recorded turn, played through the core.')}\n` +
          `Each ${style('dim', '·')} is a delta of the provider, each line a snapshot for the UI.\n\n`,
      ),
    delta() {
      dots += 1
      return dots <= DELTA_COLUMN ? write(style('dim', '·')) : undefined
    },
    snapshot(_message, output) {
      const pad = ' '.repeat(Math.max(0, DELTA_COLUMN - dots))
      const { title, detail } = describeOutput(output)
      const room = Math.max(20, columns - DELTA_COLUMN - 26)
      dots = 0
      snapshots += 1
      return write(`${pad} ${style('cyan', title.padEnd(23))} ${clip(detail, room)}\n`)
    },
    end: (events, items) =>
      write(
        `\n${events} events in, ${snapshots} snapshots out, ${items} items in the Response.\n` +
          'Each snapshot is the whole text so far, so the last one of an item is all a UI needs.\n',
      ),
  }
}
