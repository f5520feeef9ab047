import { useEffect, useState } from 'preact/hooks'

/** Copies a text and confirms it for two seconds. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [result, setResult] = useState<'Copied' | 'Cannot copy'>()

  useEffect(() => {
    if (result === undefined) return undefined
    const timer = setTimeout(() => setResult(undefined), 2000)
    return () => clearTimeout(timer)
  }, [result])

  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setResult('Copied')
    } catch {
      // Without TLS, or when the browser refuses it.
      setResult('Cannot copy')
    }
  }
  return (
    <button type="button" class="quiet" aria-live="polite" onClick={() => void copy()}>
      {result ?? label}
    </button>
  )
}
