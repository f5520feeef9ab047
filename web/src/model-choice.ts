import { useState } from 'preact/hooks'
import type { TurnView } from '../../packages/client/src/index.ts'

const KEY = 'turnstream.model'

/** The model of a conversation: the one chosen in it, or else its last one, the one chosen last, or the first. */
export function useModelChoice(
  models: readonly string[] | undefined,
  { threadId, turns }: { threadId: string | undefined; turns: readonly TurnView[] },
): [string | undefined, (model: string) => void] {
  const [chosen, setChosen] = useState<{ threadId: string | undefined; model: string }>()
  const candidates = [
    chosen?.threadId === threadId ? chosen?.model : undefined,
    turns.map(modelOf).findLast((model) => model !== undefined),
    localStorage.getItem(KEY),
  ]
  const model = candidates.find((each) => each != null && models?.includes(each)) ?? models?.[0]
  return [
    model,
    (next) => {
      localStorage.setItem(KEY, next)
      setChosen({ threadId, model: next })
    },
  ]
}

/** The model that a turn ran with. */
export function modelOf({ started }: TurnView): string | undefined {
  const { providerId, modelId } = started ?? {}
  return providerId === undefined || modelId === undefined ? undefined : `${providerId}/${modelId}`
}
