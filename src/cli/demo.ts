import { type Clock, sleep } from '../async/clock.ts'
import { StreamProcessor } from '../processor/stream-processor.ts'
import type { StreamMessage, StreamOutput } from '../protocol/stream-output.ts'
import { ResponseReducer } from '../reducer/response-reducer.ts'
import { DEMO_THREAD_ID, DEMO_TURN_ID, demoTurn } from './demo-turn.ts'
import type { Terminal } from './terminal.ts'

export interface DemoOptions {
  /** 1 plays as fast as it was recorded, 2 twice as fast, Infinity without waiting. */
  speed: number
  json: boolean
  clock: Clock
  terminal: Terminal
}

/** Plays a recorded turn through the core, so that one can see deltas become snapshots. */
export async function runDemo({ speed, json, clock, terminal }: DemoOptions): Promise<void> {
  const view = json ? jsonView(terminal) : lineView(terminal)
  const reducer = new ResponseReducer()
  const processor = new StreamProcessor({
    turnId: DEMO_TURN_ID,
    threadId: DEMO_THREAD_ID,
    clock,
    onEmit: (message, output) => view.snapshot(message, output),
  })
  const script = demoTurn(clock.now())
  view.begin()
  for (const { afterMs, event } of script) {
    if (afterMs > 0 && speed !== Infinity) await sleep(afterMs / speed, clock)
    if (event.type === 'item_delta') view.delta()
    reducer.apply(event)
    await processor.processEvent(event)
  }
  await processor.destroy()
  view.end(script.length, reducer.response.output_items.length)
}

interface View {
  begin(): void
  delta(): void
  snapshot(message: StreamMessage, output: StreamOutput): void
  end(events: number, items: number): void
}

/** One record of the processed log to a line, for programs. */
function jsonView({ write }: Terminal): View {
  return {
    begin() {},
    delta() {},
    snapshot: (message) => write(`${JSON.stringify(message)}\n`),
    end() {},
  }
}

const DELTA_COLUMN = 34

/** A dot for each delta that came in, and at its end the snapshot that went out. */
function lineView({ write, style, columns }: Terminal): View {
  let dots = 0
  let snapshots = 0

  return {
    begin() {
      write(`${style('bold', 'A recorded turn, played through the core.')}\n`)
      write(
        `Each ${style('dim', '·')} is a delta of the provider, each line a snapshot for the UI.\n\n`,
      )
    },
    delta() {
      dots += 1
      if (dots <= DELTA_COLUMN) write(style('dim', '·'))
    },
    snapshot(_message, output) {
      const pad = ' '.repeat(Math.max(0, DELTA_COLUMN - dots))
      const [title, detail] = summary(output)
      const room = Math.max(20, columns - DELTA_COLUMN - 26)
      write(`${pad} ${style('cyan', title.padEnd(23))} ${clip(detail, room)}\n`)
      dots = 0
      snapshots += 1
    },
    end(events, items) {
      write(`\n${events} events in, ${snapshots} snapshots out, ${items} items in the Response.\n`)
      write(
        `Each snapshot is the whole text so far, so the last one of an item is all a UI needs.\n`,
      )
    },
  }
}

function summary(output: StreamOutput): [title: string, detail: string] {
  switch (output.type) {
    case 'turn_started':
      return ['turn_started', `${output.providerId ?? ''} ${output.modelId ?? ''}`]
    case 'turn_complete':
      return ['turn_complete', `${output.status}, ${output.usage?.totalTokens ?? 0} tokens`]
    case 'turn_error':
      return ['turn_error', `${output.error.code}: ${output.error.message}`]
    case 'tool_call':
      return [`tool_call ${output.status}`, toolDetail(output)]
    case 'message':
    case 'thinking':
      return [
        `${output.type} ${output.status}`,
        `${output.content.length} characters: ${output.content}`,
      ]
  }
}

function toolDetail(output: Extract<StreamOutput, { type: 'tool_call' }>): string {
  const call = `${output.toolName}(${JSON.stringify(output.toolArguments)})`
  return output.toolOutput === undefined ? call : `${call} → ${JSON.stringify(output.toolOutput)}`
}

/** One line, cut in the middle: the beginning tells what it is, the end what is new. */
function clip(text: string, room: number): string {
  const line = text.replaceAll(/\s+/g, ' ')
  if (line.length <= room) return line
  const head = Math.ceil(room / 2)
  return `${line.slice(0, head)}…${line.slice(line.length - (room - head - 1))}`
}
