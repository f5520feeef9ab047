import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { ThreadList } from '../../packages/client/src/index.ts'
import type { ThreadsState } from '../../packages/client/src/react.ts'
import { isTemporary } from './causes.ts'
import { Confirm } from './confirm.tsx'
import { useAutoRetry } from './countdown.ts'
import { storeDraft } from './drafts.ts'
import { useFocusAfter } from './focus-after.ts'
import { client, onNewKey, renameThread } from './gateway.ts'
import { BinIcon, CloseIcon, PencilIcon } from './icons.tsx'
import { followLink, showThread, threadAddress } from './location.ts'
import { threadPath } from './outbox.ts'
import { threadsChanged, useThreadList } from './threads.ts'
import { Trouble, Unsent } from './trouble.tsx'

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
  const { threads, hasMore, isLoading, error, loadMore, refresh } = useThreadList()
  const failure = useFailure({ error, isLoading, refresh })
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
        {failure !== undefined && (
          <Trouble what="The conversations could not be loaded." {...failure} />
        )}
        {shown.length === 0 && !isLoading && failure === undefined && (
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

/** Why the list was not loaded. It stays while it is loaded again. */
function useFailure(list: Pick<ThreadsState, 'error' | 'isLoading' | 'refresh'>) {
  const { error, isLoading, refresh } = list
  const onRetry = () => void refresh()
  const retryAt = useAutoRetry({ error, isLoading }, onRetry)
  const failure = useRef(error)
  if (!isLoading) failure.current = error
  useEffect(() => onNewKey(onRetry), [refresh])

  const cause = failure.current
  if (cause === undefined) return undefined
  const isRetried = isTemporary(cause)
  return { cause, retryAt: isLoading ? undefined : retryAt, isRetried, onRetry }
}

function Row({ thread, isCurrent }: { thread: ListedThread; isCurrent: boolean }) {
  const [isRenaming, setRenaming] = useState(false)
  const [isDeleting, setDeleting] = useState(false)
  const [error, setError] = useState<string>()
  const link = useFocusAfter<HTMLAnchorElement>(isRenaming)
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
    storeDraft(threadId, undefined)
    void change(client.delete(threadId))
    if (isCurrent) showThread(undefined)
  }
  return (
    <li class={isCurrent ? 'current' : undefined}>
      {isRenaming ? (
        <RenameField title={title} onDone={rename} />
      ) : (
        <a
          ref={link}
          dir="auto"
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
          onClick={() => setDeleting(true)}
        >
          <BinIcon />
        </button>
      </span>
      {error !== undefined && <p class="hint">{error}</p>}
      <Unsent id={threadPath(threadId)} what="Not deleted yet." />
      {isDeleting && (
        <Confirm
          label={`Delete ${title}`}
          action="Delete"
          onConfirm={remove}
          onClose={() => setDeleting(false)}
        >
          Delete <b>{title}</b>? This also deletes its turns.
        </Confirm>
      )}
    </li>
  )
}

/** Keeps what is typed while the list is loaded again. */
function RenameField({ title, onDone }: { title: string; onDone: (name: string) => void }) {
  const field = useRef<HTMLInputElement>(null)
  const isDone = useRef(false)
  useLayoutEffect(() => field.current?.select(), [])

  const finish = (name: string) => {
    // The field also loses the focus when it is removed.
    if (!isDone.current) onDone(name)
    isDone.current = true
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const { value } = event.currentTarget as HTMLInputElement
    if (event.isComposing) return
    if (event.key === 'Enter') finish(value.trim())
    if (event.key === 'Escape') finish(title)
  }
  return (
    <input
      aria-label="New title"
      dir="auto"
      maxLength={200}
      defaultValue={title}
      ref={field}
      onKeyDown={onKeyDown}
      onBlur={(event) => finish(event.currentTarget.value.trim())}
    />
  )
}
