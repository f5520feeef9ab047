import { useRef, useState } from 'preact/hooks'
import type { ThreadList } from '../../src/client.ts'
import { client, renameThread } from './gateway.ts'
import { BinIcon, CloseIcon, PencilIcon } from './icons.tsx'
import { followLink, showThread, threadAddress } from './location.ts'
import { threadsChanged, useThreadList } from './threads.ts'

type ListedThread = ThreadList['threads'][number]

function titleOf({ title, threadId }: ListedThread): string {
  return title?.trim() || `Untitled ${threadId.slice(0, 8)}`
}

/** The list of threads, with a search. */
export function Sidebar(props: {
  threadId: string | undefined
  isOpen: boolean
  onClose: () => void
}) {
  const { threads, hasMore, isLoading, error, loadMore } = useThreadList()
  const [search, setSearch] = useState('')
  const wanted = search.trim().toLowerCase()
  const shown = threads.filter((thread) => titleOf(thread).toLowerCase().includes(wanted))

  return (
    <>
      {props.isOpen && <div class="shade" onClick={props.onClose} aria-hidden="true" />}
      <nav class={props.isOpen ? 'sidebar open' : 'sidebar'} aria-label="Conversations">
        <header>
          <a
            class="brand"
            href={threadAddress(undefined)}
            onClick={(event) => followLink(event, undefined)}
          >
            turnstream
          </a>
          <button
            type="button"
            class="quiet close"
            aria-label="Close the list"
            onClick={props.onClose}
          >
            <CloseIcon />
          </button>
        </header>
        <button type="button" class="new" onClick={() => showThread(undefined)}>
          New conversation
        </button>
        <input
          type="search"
          placeholder="Search"
          aria-label="Search conversations"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        {error !== undefined && (
          <p class="hint">The conversations could not be loaded: {error.message}</p>
        )}
        {shown.length === 0 && !isLoading && error === undefined && (
          <p class="hint">{wanted === '' ? 'Nothing here yet.' : 'No title contains this.'}</p>
        )}
        <ul>
          {shown.map((thread) => (
            <Row
              key={thread.threadId}
              thread={thread}
              isCurrent={thread.threadId === props.threadId}
            />
          ))}
        </ul>
        {hasMore && (
          <button type="button" class="quiet" onClick={() => void loadMore()}>
            Show more
          </button>
        )}
        <footer>
          <a href="docs">API reference</a> · <a href="inspect">Inspector</a>
        </footer>
      </nav>
    </>
  )
}

function Row({ thread, isCurrent }: { thread: ListedThread; isCurrent: boolean }) {
  const [isRenaming, setRenaming] = useState(false)
  const [error, setError] = useState<string>()
  const dialog = useRef<HTMLDialogElement>(null)
  const { threadId } = thread
  const title = titleOf(thread)

  const change = async (request: Promise<void>) => {
    try {
      await request
      setError(undefined)
    } catch (cause) {
      setError((cause as Error).message)
    }
    threadsChanged()
  }
  const rename = (name: string) => {
    setRenaming(false)
    if (name !== '' && name !== title) void change(renameThread(threadId, name))
  }
  const remove = () => {
    dialog.current?.close()
    void change(client.delete(threadId))
    if (isCurrent) showThread(undefined)
  }
  return (
    <li class={isCurrent ? 'current' : undefined}>
      {isRenaming ? (
        <RenameField title={title} onDone={rename} />
      ) : (
        <a
          href={threadAddress(threadId)}
          aria-current={isCurrent ? 'page' : undefined}
          title={title}
          onClick={(event) => followLink(event, threadId)}
        >
          {title}
        </a>
      )}
      <span class="row-actions">
        <button
          type="button"
          class="quiet"
          aria-label={`Rename ${title}`}
          onClick={() => setRenaming(true)}
        >
          <PencilIcon />
        </button>
        <button
          type="button"
          class="quiet"
          aria-label={`Delete ${title}`}
          onClick={() => dialog.current?.showModal()}
        >
          <BinIcon />
        </button>
      </span>
      {error !== undefined && <p class="hint">{error}</p>}
      <dialog ref={dialog} aria-label={`Delete ${title}`}>
        <p>
          Delete <b>{title}</b>? This also deletes its turns.
        </p>
        <div class="actions">
          <button type="button" autofocus onClick={() => dialog.current?.close()}>
            Keep
          </button>
          <button type="button" class="danger" onClick={remove}>
            Delete
          </button>
        </div>
      </dialog>
    </li>
  )
}

function RenameField({ title, onDone }: { title: string; onDone: (name: string) => void }) {
  const onKeyDown = (event: KeyboardEvent) => {
    const field = event.currentTarget as HTMLInputElement
    if (event.key === 'Enter') onDone(field.value.trim())
    if (event.key === 'Escape') onDone(title)
  }
  return (
    <input
      aria-label="New title"
      maxLength={200}
      value={title}
      ref={(field) => field?.select()}
      onKeyDown={onKeyDown}
      onBlur={(event) => onDone(event.currentTarget.value.trim())}
    />
  )
}
