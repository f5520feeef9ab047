import { useState } from 'preact/hooks'

const KEY = 'turnstream.model'

/** The chosen model, stored in this browser, or the first one. */
export function useModelChoice(
  models: readonly string[] | undefined,
): [string | undefined, (model: string) => void] {
  const [chosen, setChosen] = useState(() => localStorage.getItem(KEY) ?? undefined)
  const model = chosen !== undefined && models?.includes(chosen) ? chosen : models?.[0]
  return [
    model,
    (next) => {
      localStorage.setItem(KEY, next)
      setChosen(next)
    },
  ]
}
