import { useMemo, useState } from 'preact/hooks'
import type { ItemSnapshot } from '../../../packages/core/src/protocol/stream-output.ts'
import { DIALECTS, type Dialect, DialectFrames } from './dialects.ts'
import { type Recording, upperBound } from './recording.ts'

/** What a client that left at the cursor gets when it resumes now, and how its view changes. */
export function ResumePanel(props: { recording: Recording; length: number; cursor: number }) {
  const { recording, length, cursor } = props
  const [isOpen, setOpen] = useState(false)
  return (
    <details class="resume" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>What would a client get if it came back now?</summary>
      {isOpen && (
        <>
          <Missed recording={recording} length={length} cursor={cursor} />
          <Changes recording={recording} cursor={cursor} />
        </>
      )}
    </details>
  )
}

/** How clients of a format resume. Others start over. */
const RESUMES: Readonly<Partial<Record<Dialect, string>>> = {
  v2: 'continues after its last event id',
  xapi: 'continues after its last snapshot',
  'openai-responses': 'continues after its last sequence number',
}

const RESTARTS: Readonly<Partial<Record<Dialect, string>>> = {
  'anthropic-messages': 'joins: gets each block so far at once, then the rest',
}

const NO_CURSOR = 'cannot resume: this API has no cursor'

function Missed(props: { recording: Recording; length: number; cursor: number }) {
  const { recording, length, cursor } = props
  const encoded = useMemo(
    () => DIALECTS.map((dialect) => [dialect, new DialectFrames(recording, dialect)] as const),
    [recording],
  )
  useMemo(() => {
    for (const [, frames] of encoded) frames.update()
  }, [encoded, length])
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Reads</th>
          <th scope="col">Comes back</th>
          <th scope="col">Gets</th>
        </tr>
      </thead>
      <tbody>
        {encoded.map(([dialect, { eventsOf, bytes }]) => {
          const resumes = RESUMES[dialect]
          const had = resumes === undefined ? 0 : upperBound(eventsOf, cursor)
          const missed = (bytes.at(-1) ?? 0) - (bytes[had - 1] ?? 0)
          return (
            <tr key={dialect}>
              <th scope="row">{dialect}</th>
              <td>{resumes ?? RESTARTS[dialect] ?? NO_CURSOR}</td>
              <td>
                {resumes === undefined && 'at most '}
                {eventsOf.length - had} frames, {missed} bytes
              </td>
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

function Changes({ recording, cursor }: { recording: Recording; cursor: number }) {
  const before = recording.viewAt(cursor).turns[0]?.items ?? []
  const after = recording.viewAt(recording.length).turns[0]?.items ?? []
  const changed = after.filter(
    (item) => before.find(({ itemId }) => itemId === item.itemId) !== item,
  )
  if (changed.length === 0) return <p class="hint">Its reader sees nothing new.</p>
  return (
    <ul class="changes">
      {changed.map((item) => (
        <Change
          key={item.itemId}
          before={before.find(({ itemId }) => itemId === item.itemId)}
          after={item}
        />
      ))}
    </ul>
  )
}

const CONTEXT = 80
const MAX_ADDED = 2000

function Change({ before, after }: { before: ItemSnapshot | undefined; after: ItemSnapshot }) {
  const name = after.type === 'tool_call' ? after.toolName : after.type
  const known = before?.content ?? ''
  const grew = after.content.startsWith(known)
  const added = grew ? after.content.slice(known.length) : after.content
  return (
    <li>
      <b>{name}</b>{' '}
      <code>{before === undefined ? 'new' : `${before.status} → ${after.status}`}</code>
      <p>
        {grew && known.slice(-CONTEXT)}
        <ins>{added.slice(0, MAX_ADDED)}</ins>
        {added.length > MAX_ADDED && ` … ${added.length - MAX_ADDED} more characters`}
      </p>
    </li>
  )
}
