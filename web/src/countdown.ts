import { useEffect, useReducer, useRef, useState } from 'preact/hooks'
import { type Cause, isTemporary } from './causes.ts'

const LONGEST_MS = 15_000

/** The whole seconds until a time, or since one. Renders again with each. */
export function useSeconds(time: number): number {
  const [, changed] = useReducer((count: number) => count + 1, 0)
  const ms = time - Date.now()
  useEffect(() => {
    if (time === 0 || !Number.isFinite(time)) return undefined
    const timer = setTimeout(changed, ((((time - Date.now()) % 1000) + 1000) % 1000) + 1)
    return () => clearTimeout(timer)
  })
  return ms > 0 ? Math.ceil(ms / 1000) : Math.floor(-ms / 1000)
}

/** Loads again after an error, later each time. Returns when. */
export function useAutoRetry(
  { error, isLoading }: { error: Cause | undefined; isLoading: boolean },
  retry: () => void,
): number | undefined {
  const failures = useRef(0)
  const [retryAt, setRetryAt] = useState<number>()
  useEffect(() => {
    if (isLoading) return undefined
    setRetryAt(undefined)
    if (error === undefined) failures.current = 0
    if (error === undefined || !isTemporary(error)) return undefined
    const wait = Math.max(
      error.retryAfterMs ?? 0,
      Math.min(LONGEST_MS, 1000 * 2 ** failures.current),
    )
    failures.current += 1
    setRetryAt(Date.now() + wait)
    const timer = setTimeout(retry, wait)
    addEventListener('online', retry)
    return () => {
      clearTimeout(timer)
      removeEventListener('online', retry)
    }
  }, [error, isLoading])
  return retryAt
}
