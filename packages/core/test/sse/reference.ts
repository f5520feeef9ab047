import type { SseEvent } from '../../src/index.ts'
import type { Reading } from './cuts.ts'

/**
 * The interpretation of an event stream as the standard writes it down, step by step and for the
 * whole text at once: slow and plain, to compare the decoder with.
 */
export function interpret(stream: string): Reading {
  const events: SseEvent[] = []
  let data = ''
  let eventType = ''
  let idBuffer = ''
  let lastEventId = ''
  let retryMs: number | undefined

  const lines = stream.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/)
  // What follows the last line break is no line: the file ended in it.
  for (const line of lines.slice(0, -1)) {
    if (line === '') {
      lastEventId = idBuffer
      if (data !== '') {
        events.push({ event: eventType, data: data.replace(/\n$/, ''), id: lastEventId })
      }
      data = ''
      eventType = ''
      continue
    }
    const [, field, value] = /^([^:]*):? ?([^]*)$/.exec(line) ?? []
    if (field === 'event') eventType = value ?? ''
    if (field === 'data') data += `${value}\n`
    if (field === 'id' && !value?.includes('\0')) idBuffer = value ?? ''
    if (field === 'retry' && /^[0-9]+$/.test(value ?? '')) retryMs = Number(value)
  }
  return { events, lastEventId, retryMs }
}
