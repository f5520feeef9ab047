import { useEffect, useRef, useState } from 'preact/hooks'
import type { StreamEvent } from '../../../packages/core/src/protocol/stream-event.ts'
import type { Recording } from './recording.ts'

/** In CSS pixels; the same as in the style sheet. */
const ROW = 26
const SPARE = 8

/** The events. Only visible ones are in the document. */
export function EventList(props: {
  recording: Recording
  length: number
  cursor: number
  onSeek: (events: number) => void
}) {
  const { recording, length, cursor, onSeek } = props
  const box = useRef<HTMLDivElement>(null)
  const [range, setRange] = useState({ top: 0, height: 400 })

  useEffect(() => {
    const element = box.current
    if (element === null) return
    const top = (cursor - 1) * ROW
    const isInSight =
      top >= element.scrollTop && top + ROW <= element.scrollTop + element.clientHeight
    if (!isInSight) element.scrollTop = Math.max(0, top - element.clientHeight / 2)
  }, [cursor])
  useEffect(() => {
    const element = box.current
    if (element === null) return undefined
    const observer = new ResizeObserver(() =>
      setRange({ top: element.scrollTop, height: element.clientHeight }),
    )
    observer.observe(element)
    return () => observer.disconnect()
  }, [])

  const first = Math.max(0, Math.floor(range.top / ROW) - SPARE)
  const last = Math.min(length, Math.ceil((range.top + range.height) / ROW) + SPARE)
  const rows = []
  for (let index = first; index < last; index++) {
    const event = recording.events[index]
    if (event === undefined) continue
    const at = recording.times[index] ?? 0
    const gap = at - (recording.times[index - 1] ?? at)
    rows.push(
      <button
        type="button"
        key={index}
        class={index === cursor - 1 ? 'event current' : 'event'}
        style={{ top: `${index * ROW}px` }}
        tabIndex={-1}
        onClick={() => onSeek(index + 1)}
      >
        <span class="at">{(at / 1000).toFixed(3)}</span>
        <span class={gap >= 1000 ? 'gap long' : 'gap'}>
          {gap === 0 ? '' : `+${Math.round(gap)}`}
        </span>
        <span class="what">{event.type}</span>
        <span class="detail">{detailOf(event)}</span>
      </button>,
    )
  }
  return (
    <div
      class="events"
      ref={box}
      role="region"
      tabIndex={0}
      aria-label="Events"
      onScroll={(event) =>
        setRange({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })
      }
    >
      <div style={{ height: `${length * ROW}px` }}>{rows}</div>
    </div>
  )
}

function detailOf({ payload }: StreamEvent): string {
  switch (payload.type) {
    case 'item_delta':
      return JSON.stringify(payload.delta_content)
    case 'item_start':
      return payload.name ?? payload.item_type
    case 'response_start':
      return `${payload.provider_id}/${payload.model_id}`
    case 'response_done':
      return payload.finish_reason ?? payload.status
    case 'response_error':
    case 'item_error':
      return payload.error.code
    default:
      return ''
  }
}
