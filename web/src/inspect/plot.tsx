import { useEffect, useRef } from 'preact/hooks'
import { DEFAULT_BATCH_GRADIENT } from '../../../packages/core/src/processor/options.ts'
import { type Recording, upperBound } from './recording.ts'

/** A pause of the provider that is worth seeing. */
const STALL_MS = 1000
/** The processor estimates four characters per token. */
const CHARS_PER_TOKEN = 4

interface PlotProps {
  readonly recording: Recording
  /** Changes when the recording has grown. */
  readonly length: number
  /** How many events have arrived at the cursor. */
  readonly cursor: number
  readonly reconnects: readonly number[]
  readonly onSeek: (events: number) => void
}

/**
 * The turn to scale: the text received and the text shown, above the events and the emissions. Drawn pixel by pixel, so
 * that a hundred thousand events cost no more than a thousand.
 */
export function Plot({ recording, length, cursor, reconnects, onSeek }: PlotProps) {
  const canvas = useRef<HTMLCanvasElement>(null)

  useEffect(() => {
    const element = canvas.current
    if (element === null) return undefined
    const draw = () => drawPlot(element, recording, cursor, reconnects)
    draw()
    const observer = new ResizeObserver(draw)
    observer.observe(element)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', draw)
    return () => {
      observer.disconnect()
      scheme.removeEventListener('change', draw)
    }
  }, [recording, length, cursor, reconnects])

  const seek = (event: PointerEvent) => {
    const element = canvas.current
    if (element === null || event.buttons !== 1) return
    element.setPointerCapture(event.pointerId)
    const { left, width } = element.getBoundingClientRect()
    const share = Math.min(1, Math.max(0, (event.clientX - left) / width))
    onSeek(recording.indexAt(share * recording.duration))
  }
  return (
    <figure class="plot">
      <canvas ref={canvas} aria-hidden="true" onPointerDown={seek} onPointerMove={seek} />
      <figcaption>
        <span class="key key-received">received</span>
        <span class="key key-shown">shown</span>
        <span class="key key-event">events</span>
        <span class="key key-emission">snapshots</span>
        <span class="key key-stall">silent for a second or more</span>
        {reconnects.length > 0 && <span class="key key-reconnect">this page reconnected</span>}
      </figcaption>
    </figure>
  )
}

/** Heights in CSS pixels. */
const CHART = 110
const LANE = 12

function drawPlot(
  canvas: HTMLCanvasElement,
  recording: Recording,
  cursor: number,
  reconnects: readonly number[],
): void {
  const { width } = canvas.getBoundingClientRect()
  const height = CHART + 2 * LANE + 8
  canvas.width = Math.max(1, Math.round(width * devicePixelRatio))
  canvas.height = Math.round(height * devicePixelRatio)
  const context = canvas.getContext('2d')
  if (context === null || width === 0) return
  context.scale(devicePixelRatio, devicePixelRatio)
  const style = getComputedStyle(canvas)
  const colour = (name: string) => style.getPropertyValue(`--${name}`)
  const { times, received, shown, emissions } = recording
  const toX = (ms: number) =>
    recording.duration === 0 ? 0 : (ms / recording.duration) * (width - 1)
  const most = received.reduce((before, chars) => Math.max(before, chars), 1)
  const toY = (chars: number) => CHART - (chars / most) * (CHART - 6)

  drawThresholds(context, { most, toY, width, colour: colour('line') })
  context.fillStyle = colour('stall')
  for (let index = 1; index < times.length; index++) {
    const gap = (times[index] ?? 0) - (times[index - 1] ?? 0)
    if (gap >= STALL_MS) context.fillRect(toX(times[index - 1] ?? 0), 0, toX(gap), height)
  }

  drawSteps(context, { width, colour: colour('accent') }, (x) => {
    const events = recording.indexAt((x / (width - 1)) * recording.duration)
    return toY(received[events - 1] ?? 0)
  })
  drawSteps(context, { width, colour: colour('good') }, (x) => {
    const count = upperBound(emissions, (x / (width - 1)) * recording.duration, ({ at }) => at)
    return toY(shown[count - 1] ?? 0)
  })
  drawTicks(context, { times, toX, y: CHART + 4, colour: colour('accent') })
  drawTicks(context, {
    times: emissions.map(({ at }) => at),
    toX,
    y: CHART + LANE + 6,
    colour: colour('good'),
  })

  context.fillStyle = colour('warn')
  for (const events of reconnects) context.fillRect(toX(times[events - 1] ?? 0), 0, 2, height)
  context.fillStyle = colour('text')
  context.fillRect(toX(times[cursor - 1] ?? 0) - 0.5, 0, 1.5, height)
}

/** Where the gradient makes the processor emit, for the first item. */
function drawThresholds(
  context: CanvasRenderingContext2D,
  {
    most,
    toY,
    width,
    colour,
  }: { most: number; toY: (chars: number) => number; width: number; colour: string },
): void {
  context.fillStyle = colour
  let tokens = 0
  for (const step of DEFAULT_BATCH_GRADIENT) {
    tokens += step
    if (tokens * CHARS_PER_TOKEN > most) return
    context.fillRect(0, toY(tokens * CHARS_PER_TOKEN), width, 1)
  }
}

function drawSteps(
  context: CanvasRenderingContext2D,
  { width, colour }: { width: number; colour: string },
  yAt: (x: number) => number,
): void {
  context.strokeStyle = colour
  context.lineWidth = 1.5
  context.beginPath()
  let before = yAt(0)
  context.moveTo(0, before)
  for (let x = 1; x < width; x++) {
    const y = yAt(x)
    context.lineTo(x, before)
    context.lineTo(x, y)
    before = y
  }
  context.stroke()
}

function drawTicks(
  context: CanvasRenderingContext2D,
  {
    times,
    toX,
    y,
    colour,
  }: { times: readonly number[]; toX: (ms: number) => number; y: number; colour: string },
): void {
  context.fillStyle = colour
  let last = -1
  for (const time of times) {
    const x = Math.round(toX(time))
    if (x === last) continue
    context.fillRect(x, y, 1, LANE - 4)
    last = x
  }
}
