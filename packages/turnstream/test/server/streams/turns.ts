import { type TextRecord } from '../../../../conformance/src/turn-log/append.ts'
import { delta, eventText, responseDone } from '../../../../conformance/src/turn-log/texts.ts'
import type { ItemSnapshot, StreamOutput } from '../../../../core/src/index.ts'
import type { LogName } from '../../../../core/src/log/turn-log.ts'

const THREAD = { threadId: 'thread' }

function text(turnId: string, itemId: string, status: ItemSnapshot['status'], content: string) {
  const base = { turnId, ...THREAD, itemId, status, content }
  return itemId === 'think'
    ? ({ type: 'thinking', ...base, providerId: 'p' } as const)
    : ({ type: 'message', ...base, origin: 'agent' } as const)
}

/**
 * A turn as the processor shows it: two texts that grow at the same time, characters of every length and one
 * that is cut in half, a call with its output, a final text that replaces what was shown, an error.
 */
export function outputsOf(turnId: string): StreamOutput[] {
  const call = { type: 'tool_call', turnId, ...THREAD, itemId: 'call' } as const
  const tool = { toolName: 'look', toolArguments: { at: 'x' }, callId: 'c1', content: '' }
  return [
    { type: 'turn_started', turnId, ...THREAD, modelId: 'm', providerId: 'p' },
    text(turnId, 'prompt', 'complete', 'What is it?'),
    text(turnId, 'think', 'create', 'Let me see'),
    text(turnId, 'answer', 'create', 'Größe: '),
    text(turnId, 'think', 'update', 'Let me see …\n\nYes'),
    text(turnId, 'answer', 'update', 'Größe: 漢字 \ud83d'),
    text(turnId, 'answer', 'update', 'Größe: 漢字 \ud83d\ude00 "quoted"\r\nline'),
    text(turnId, 'think', 'complete', 'Let me see …\n\nYes.'),
    { ...call, ...tool, status: 'create' },
    { ...call, ...tool, status: 'complete', toolOutput: { found: true }, success: true },
    text(turnId, 'answer', 'complete', 'Another text altogether.'),
    text(turnId, 'late', 'create', 'half a'),
    {
      ...text(turnId, 'late', 'error', 'half a'),
      ...{ errorCode: 'UPSTREAM_TRUNCATED', errorMessage: 'it stopped' },
    },
    { type: 'turn_complete', turnId, ...THREAD, status: 'complete' },
  ]
}

/** A run of events; the last one is its end. */
export function eventsOf(turnId: string): string[] {
  const start = eventText(turnId, 1, { type: 'response_start' })
  const texts = ['Größe', ': 漢', '字 \ud83d', '\ude00', ' "q"\n', 'end.']
  const deltas = texts.map((text, index) => delta(turnId, index + 2, text))
  return [start, ...deltas, responseDone(turnId, deltas.length + 2)]
}

/** Everything that is written to a log of the turn, one record after the other. */
export function recordsOf(turnId: string, log: LogName): TextRecord[] {
  const texts =
    log === 'events' ? eventsOf(turnId) : outputsOf(turnId).map((output) => JSON.stringify(output))
  return texts.map((data, index) => ({ seq: index + 1, data }))
}
