import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks'
import './inspector.css'
import { sentenceFor } from '../causes.ts'
import { Trouble } from '../trouble.tsx'
import { DIALECTS, type Dialect, DialectFrames } from './dialects.ts'
import { EventList } from './event-list.tsx'
import { type FeedState, follow } from './feed.ts'
import { Plot } from './plot.tsx'
import { Recording, upperBound } from './recording.ts'
import { ResumePanel } from './resume-panel.tsx'

const SPEEDS = [0.5, 1, 2, 5, 10] as const

/** Loaded only when it is used: it reads what every provider sends. */
const cassettes = () => import('./cassette.ts')

/** One turn, instant by instant: what arrived, what it became, and what a client had received by then. */
export function Inspector(props: { turnId: string | undefined; onClose?: () => void }) {
  const { turnId, onClose } = props
  const [opened, setOpened] = useState<OpenedFile>()
  const loaded = useRecording(opened === undefined ? turnId : undefined)
  const recording = opened?.recording ?? loaded.recording
  const feed = opened === undefined ? loaded.feed : FROM_FILE
  const name = opened?.name ?? turnId
  const Heading = onClose === undefined ? 'h1' : 'h2'
  const { length } = recording
  const { cursor, seek, isLive, goLive } = useCursor(recording)
  const [isPlaying, setPlaying] = useState(false)
  const [speed, setSpeed] = useState(1)
  usePlayer({ recording, cursor, isPlaying, speed, seek, stop: () => setPlaying(false) })
  useKeys({
    ' ': () => setPlaying((playing) => !playing),
    ArrowRight: () => seek(cursor + 1),
    ArrowLeft: () => seek(cursor - 1),
    Home: () => seek(1),
    End: goLive,
  })

  const start = recording.events[0]
  const model =
    start?.type === 'response_start' ? `${start.payload.provider_id}/${start.payload.model_id}` : ''
  return (
    <section class="inspector" aria-label="Inspector">
      <header>
        {onClose === undefined ? (
          <a href="./">← Conversations</a>
        ) : (
          <button type="button" onClick={onClose}>
            Close
          </button>
        )}
        <Heading>{name === undefined ? 'Inspector' : `Turn ${name}`}</Heading>
        <span class="facts">{model}</span>
        <Files recording={recording} name={name} onOpen={setOpened} />
        {name !== undefined && <Status feed={feed} />}
      </header>
      {feed.status === 'failed' && feed.cause && (
        <Trouble cause={feed.cause} retryAt={undefined} isRetried={false} onRetry={loaded.reload} />
      )}
      <Plot
        recording={recording}
        length={length}
        cursor={cursor}
        reconnects={feed.reconnects}
        onSeek={seek}
      />
      <Player
        recording={recording}
        cursor={cursor}
        seek={seek}
        isPlaying={isPlaying}
        onPlaying={setPlaying}
        speed={speed}
        onSpeed={setSpeed}
        isLive={isLive}
        goLive={goLive}
      />
      <Totals recording={recording} cursor={cursor} />
      <Columns recording={recording} length={length} cursor={cursor} onSeek={seek} />
      <ResumePanel recording={recording} length={length} cursor={cursor} />
    </section>
  )
}

/** The same instant in every form. */
function Columns(props: {
  recording: Recording
  length: number
  cursor: number
  onSeek: (events: number) => void
}) {
  const { recording, length, cursor } = props
  return (
    <div class="columns">
      <section>
        <h2>Events</h2>
        <EventList recording={recording} length={length} cursor={cursor} onSeek={props.onSeek} />
      </section>
      {recording.vendor.length > 0 && (
        <section>
          <h2>From the provider</h2>
          <VendorBytes recording={recording} cursor={cursor} />
        </section>
      )}
      <section>
        <h2>This event</h2>
        <pre tabIndex={0}>{pretty(recording.events[cursor - 1])}</pre>
      </section>
      <section>
        <h2>Shown by then</h2>
        <pre tabIndex={0}>{pretty(recording.viewAt(cursor).turns[0])}</pre>
      </section>
      <Bytes recording={recording} length={length} cursor={cursor} />
    </div>
  )
}

function Player(props: {
  recording: Recording
  cursor: number
  seek: (events: number) => void
  isPlaying: boolean
  onPlaying: (isPlaying: boolean) => void
  speed: number
  onSpeed: (speed: number) => void
  isLive: boolean
  goLive: () => void
}) {
  const { recording, cursor, seek, isPlaying, speed } = props
  return (
    <div class="player">
      <button type="button" class="primary" onClick={() => props.onPlaying(!isPlaying)}>
        {isPlaying ? 'Pause' : 'Play'}
      </button>
      <button type="button" aria-label="Previous event" onClick={() => seek(cursor - 1)}>
        ‹
      </button>
      <button type="button" aria-label="Next event" onClick={() => seek(cursor + 1)}>
        ›
      </button>
      <label>
        <span class="hidden">Speed</span>
        <select
          value={speed}
          onChange={(event) => props.onSpeed(Number(event.currentTarget.value))}
        >
          {SPEEDS.map((each) => (
            <option key={each} value={each}>
              {each} ×
            </option>
          ))}
        </select>
      </label>
      <input
        type="range"
        aria-label="Position"
        min={0}
        max={recording.length}
        value={cursor}
        onInput={(event) => seek(Number(event.currentTarget.value))}
      />
      <button type="button" disabled={props.isLive} onClick={props.goLive}>
        {recording.isOver ? 'End' : 'Live'}
      </button>
    </div>
  )
}

/** A long text is cut: rendering it would block the page. */
const MAX_SHOWN = 20_000

function pretty(value: unknown): string {
  const text = value === undefined ? 'Nothing yet.' : JSON.stringify(value, null, 2)
  return text.length > MAX_SHOWN
    ? `${text.slice(0, MAX_SHOWN)}\n… ${text.length - MAX_SHOWN} more`
    : text
}

interface OpenedFile {
  readonly name: string
  readonly recording: Recording
}

const FROM_FILE: FeedState = { status: 'ended', reconnects: [] }

/** Opens a cassette from disk, or saves this turn as one. */
function Files(props: {
  recording: Recording
  name: string | undefined
  onOpen: (file: OpenedFile) => void
}) {
  const { recording, name, onOpen } = props
  const [error, setError] = useState<string>()
  const open = async (file: File | undefined) => {
    if (file === undefined) return
    try {
      const { openCassette } = await cassettes()
      onOpen({
        name: file.name.replace(/(\.cassette)?\.jsonl$/, ''),
        recording: await openCassette(file),
      })
      setError(undefined)
    } catch (cause) {
      setError((cause as Error).message)
    }
  }
  const save = async (as: string) => (await cassettes()).exportCassette(recording, as)
  return (
    <>
      <label class="file">
        Open a cassette
        <input
          type="file"
          accept=".jsonl"
          onChange={(event) => void open(event.currentTarget.files?.[0])}
        />
      </label>
      {name !== undefined && recording.length > 0 && (
        <button type="button" onClick={() => void save(name)}>
          Export
        </button>
      )}
      {error !== undefined && (
        <p class="notice error" role="alert">
          {error}
        </p>
      )}
    </>
  )
}

function VendorBytes({ recording, cursor }: { recording: Recording; cursor: number }) {
  const chunk = recording.vendorAt(cursor)
  return (
    <>
      {chunk && (
        <p class="hint">
          call {chunk.call}, {(chunk.at / 1000).toFixed(3)} s
        </p>
      )}
      <pre tabIndex={0}>{chunk?.text.slice(0, MAX_SHOWN) ?? 'Nothing yet.'}</pre>
    </>
  )
}

function useRecording(turnId: string | undefined): {
  recording: Recording
  feed: FeedState
  reload: () => void
} {
  const [replacements, replace] = useReducer((count: number) => count + 1, 0)
  const recording = useMemo(() => new Recording(), [turnId, replacements])
  const [feed, setFeed] = useState<FeedState>({ status: 'loading', reconnects: [] })
  const [, changed] = useReducer((count: number) => count + 1, 0)

  useEffect(() => {
    if (turnId === undefined) return undefined
    const abort = new AbortController()
    let frame: number | undefined
    let newest: FeedState | undefined
    const show = () => {
      frame = undefined
      if (newest !== undefined) setFeed(newest)
      changed(undefined)
    }
    const onChange = (state: FeedState) => {
      newest = state
      frame ??= requestAnimationFrame(show)
    }
    const onReplaced = () => replace(undefined)
    void follow(turnId, recording, { onChange, onReplaced }, abort.signal)
    return () => {
      abort.abort()
      if (frame !== undefined) cancelAnimationFrame(frame)
    }
  }, [turnId, recording])
  return { recording, feed, reload: () => replace(undefined) }
}

/** The number of events that have arrived at the cursor, stored in the URL. Undefined follows the newest. */
function useCursor(recording: Recording) {
  const [chosen, setChosen] = useState(() => {
    const given = Number.parseInt(location.hash.slice(1), 10)
    return Number.isNaN(given) ? undefined : given
  })
  const { length } = recording
  const cursor = Math.min(chosen ?? length, length)
  const seek = (events: number) => {
    const next = Math.min(Math.max(events, 0), length)
    setChosen(next)
    history.replaceState(null, '', `${location.pathname}${location.search}#${next}`)
  }
  const goLive = () => {
    setChosen(undefined)
    history.replaceState(null, '', `${location.pathname}${location.search}`)
  }
  return { cursor, seek, isLive: chosen === undefined, goLive }
}

/** Moves the cursor in the time of the turn. */
function usePlayer(options: {
  recording: Recording
  cursor: number
  isPlaying: boolean
  speed: number
  seek: (events: number) => void
  stop: () => void
}): void {
  const { isPlaying, speed } = options
  const latest = useRef(options)
  latest.current = options

  useEffect(() => {
    if (!isPlaying) return undefined
    const { recording, cursor, seek } = latest.current
    const isAtEnd = cursor >= recording.length
    if (isAtEnd) seek(0)
    const from = isAtEnd ? 0 : (recording.times[cursor - 1] ?? 0)
    const began = performance.now()
    let frame = requestAnimationFrame(function move(now) {
      const ms = from + (now - began) * speed
      const next = recording.indexAt(ms)
      if (next !== latest.current.cursor) latest.current.seek(next)
      if (ms >= recording.duration && recording.isOver) latest.current.stop()
      else frame = requestAnimationFrame(move)
    })
    return () => cancelAnimationFrame(frame)
  }, [isPlaying, speed])
}

function useKeys(keys: Readonly<Record<string, () => void>>): void {
  const latest = useRef(keys)
  latest.current = keys
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement
      const isElsewhere = target !== document.body && target.closest('.inspector') === null
      const isField = target.closest('input, select, textarea') !== null
      // Space presses a button, and opens a summary.
      const isPress = event.key === ' ' && target.closest('button, summary, a') !== null
      if (isElsewhere || isField || isPress || event.ctrlKey || event.metaKey) return
      const action = latest.current[event.key]
      if (action === undefined) return
      event.preventDefault()
      action()
    }
    addEventListener('keydown', onKeyDown)
    return () => removeEventListener('keydown', onKeyDown)
  }, [])
}

const STATUS: Readonly<Record<FeedState['status'], readonly [tone: string, text: string]>> = {
  loading: ['busy', 'Loading'],
  live: ['live', 'Live'],
  lost: ['lost', 'Trying again…'],
  ended: ['', 'Complete'],
  failed: ['lost', 'Not available'],
}

function Status({ feed }: { feed: FeedState }) {
  const [tone, text] = STATUS[feed.status]
  return (
    <p class="connection" role="status">
      <span class={`dot ${tone}`}>
        {feed.status === 'lost' && feed.cause ? `${sentenceFor(feed.cause)} ${text}` : text}
      </span>
    </p>
  )
}

function Totals({ recording, cursor }: { recording: Recording; cursor: number }) {
  const view = recording.viewAt(cursor).turns[0]
  const at = recording.times[cursor - 1] ?? 0
  const firstToken = recording.received.findIndex((chars) => chars > 0)
  const facts: [string, string][] = [
    ['time', `${(at / 1000).toFixed(2)} of ${(recording.duration / 1000).toFixed(2)} s`],
    ['events', `${cursor} of ${recording.length}`],
    ['snapshots', String(recording.emissionsAt(cursor))],
    ['received', `${recording.received[cursor - 1] ?? 0} characters`],
    ['shown', `${recording.shownAt(cursor)} characters`],
    ['tool calls', String(view?.items.filter(({ type }) => type === 'tool_call').length ?? 0)],
    [
      'first token',
      firstToken < 0 ? '–' : `${((recording.times[firstToken] ?? 0) / 1000).toFixed(2)} s`,
    ],
  ]
  return (
    <dl class="totals">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** How much of the end of a client's bytes is shown. */
const SHOWN_FRAMES = 20

/** The exact bytes that a client has received by the cursor. */
function Bytes({
  recording,
  length,
  cursor,
}: {
  recording: Recording
  length: number
  cursor: number
}) {
  const [dialect, setDialect] = useState<Dialect>('v2')
  const encoded = useMemo(() => new DialectFrames(recording, dialect), [recording, dialect])
  // Only what is new is encoded.
  useMemo(() => encoded.update(), [encoded, length])
  const count = upperBound(encoded.eventsOf, cursor)
  const first = Math.max(0, count - SHOWN_FRAMES)
  return (
    <section>
      <h2>
        <label>
          Sent as{' '}
          <select
            value={dialect}
            onChange={(event) => setDialect(event.currentTarget.value as Dialect)}
          >
            {DIALECTS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      </h2>
      <p class="hint">
        {count} frames, {encoded.bytes[count - 1] ?? 0} bytes
        {first > 0 && `; the last ${SHOWN_FRAMES}:`}
      </p>
      <pre tabIndex={0}>{encoded.frames.slice(first, count).join('').slice(-MAX_SHOWN)}</pre>
    </section>
  )
}
