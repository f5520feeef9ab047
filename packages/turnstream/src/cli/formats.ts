import { createWriter } from '@turnstream/core/internal/formats/format'
import { TARGET_NAMES, TARGETS, type TargetName } from '@turnstream/core/internal/formats/registry'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { EXIT, type ExitCode } from './command.ts'
import type { Terminal } from './terminal.ts'
import { wrap } from './text.ts'

export const NAMES_COLUMNS = 72

export const TARGET_OPTION = {
  value: 'format',
  about: wrap(TARGET_NAMES.join(' | '), NAMES_COLUMNS),
  choices: TARGET_NAMES,
} as const
export const TARGET_FLAGS = {
  json: { about: 'write JSON lines instead of SSE' },
  'include-usage': { about: 'with --to chat-completions: add a usage chunk at the end' },
} as const

export async function writeEvents(
  events: AsyncIterable<StreamEvent>,
  to: TargetName,
  { json, 'include-usage': includeUsage }: Record<keyof typeof TARGET_FLAGS, boolean>,
  { write, clock, progress }: Terminal,
): Promise<ExitCode> {
  const writer = createWriter(TARGETS[to], { json, includeUsage, write, clock })
  let hasFailed = false
  try {
    for await (const event of events) {
      const { type, payload } = event
      hasFailed ||= type === 'response_error'
      hasFailed ||= payload.type === 'response_done' && payload.status === 'error'
      await writer.event(event)
    }
    await writer.end()
  } finally {
    progress('')
  }
  return hasFailed ? EXIT.failed : EXIT.done
}
