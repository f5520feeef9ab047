import { useReducer } from 'preact/hooks'

const PREFIX = 'turnstream.draft '

/** What storage could not take, too. */
const drafts = new Map<string, string>()

/** A text that is not sent yet. It outlives reloads and switching, in this tab. Undefined removes it. */
export function useDraft(
  name: string,
): [draft: string | undefined, setDraft: (draft: string | undefined) => void] {
  const [, changed] = useReducer((count: number) => count + 1, 0)
  const draft = drafts.get(name) ?? sessionStorage.getItem(PREFIX + name) ?? undefined
  return [
    draft,
    (next) => {
      storeDraft(name, next)
      changed(undefined)
    },
  ]
}

export function storeDraft(name: string, draft: string | undefined): void {
  if (draft === undefined) {
    drafts.delete(name)
    sessionStorage.removeItem(PREFIX + name)
    return
  }
  drafts.set(name, draft)
  try {
    sessionStorage.setItem(PREFIX + name, draft)
  } catch {
    // Full. An older draft would be wrong after a reload.
    sessionStorage.removeItem(PREFIX + name)
  }
}
