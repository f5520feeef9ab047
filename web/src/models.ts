import { useCallback, useEffect, useState } from 'preact/hooks'
import type { Cause } from './causes.ts'
import { useAutoRetry } from './countdown.ts'
import { listModels, onNewKey } from './gateway.ts'

export interface Models {
  /** Undefined until they are loaded. */
  readonly ids: readonly string[] | undefined
  readonly error: Cause | undefined
  readonly retryAt: number | undefined
  readonly reload: () => void
}

/** The models that may be chosen. Loaded again after an error, and with another key. */
export function useModels(): Models {
  const [state, setState] = useState<{ ids?: readonly string[]; error?: Cause }>({})
  const [isLoading, setLoading] = useState(true)
  const reload = useCallback(() => {
    setLoading(true)
    listModels()
      .then(
        (ids) => setState({ ids }),
        (error: Cause) => setState({ error }),
      )
      .finally(() => setLoading(false))
  }, [])
  const { ids, error } = state
  const retryAt = useAutoRetry({ error, isLoading }, reload)
  useEffect(() => {
    reload()
    return onNewKey(reload)
  }, [])
  return { ids, error, retryAt: isLoading ? undefined : retryAt, reload }
}
