import { lazy, Suspense } from 'preact/compat'
import { useEffect, useState } from 'preact/hooks'
import { Chat } from './chat.tsx'
import { KeyDialog } from './key-dialog.tsx'
import { useThreadId } from './location.ts'
import { useModels } from './models.ts'
import { Sidebar } from './sidebar.tsx'

/** Loaded only where it is shown. */
const Inspector = lazy(async () => (await import('./inspect/inspector.tsx')).Inspector)

export function App() {
  const inspected = /\/inspect(?:\/([^/]+))?$/.exec(location.pathname)
  return (
    <>
      {inspected === null ? (
        <Conversations />
      ) : (
        <Suspense fallback={<p class="hint loading">Loading…</p>}>
          <main>
            <Inspector turnId={inspected[1] && decodeURIComponent(inspected[1])} />
          </main>
        </Suspense>
      )}
      <KeyDialog />
    </>
  )
}

function Conversations() {
  const threadId = useThreadId()
  const models = useModels()
  const [isMenuOpen, setMenuOpen] = useState(false)

  const [inspected, setInspected] = useState<string>()

  useEffect(() => {
    setMenuOpen(false)
    setInspected(undefined)
  }, [threadId])

  return (
    <div class={inspected === undefined ? 'app' : 'app with-inspector'}>
      <button
        type="button"
        class="skip"
        onClick={() => document.getElementById('composer')?.focus()}
      >
        Skip to the message field
      </button>
      <Sidebar threadId={threadId} isOpen={isMenuOpen} onClose={() => setMenuOpen(false)} />
      <Chat
        threadId={threadId}
        models={models}
        onMenu={() => setMenuOpen(true)}
        onInspect={setInspected}
      />
      {inspected !== undefined && (
        <aside class="beside">
          <Suspense fallback={<p class="hint loading">Loading…</p>}>
            <Inspector key={inspected} turnId={inspected} onClose={() => setInspected(undefined)} />
          </Suspense>
        </aside>
      )}
    </div>
  )
}
