import { vendorData } from '@turnstream/core/internal/formats/issuer'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'

/** Of all threads. Beyond it, the oldest is forgotten and costs one more refused call. */
const MAX_ITEMS = 10_000
const END_CHARS = 100

/** Items whose vendor data a provider has refused. They stay in their thread, and each call would be refused again. */
export class RefusedData {
  /** The error by which it refused a setting that requests have by default. */
  defaultsError: string | undefined
  readonly #keys = new Set<string>()

  add(items: readonly OutputItem[]): void {
    for (const item of items) {
      const key = keyOf(item)
      if (key === undefined) continue
      this.#keys.delete(key)
      this.#keys.add(key)
    }
    for (const key of this.#keys) {
      if (this.#keys.size <= MAX_ITEMS) return
      this.#keys.delete(key)
    }
  }

  has(item: OutputItem): boolean {
    if (this.#keys.size === 0) return false
    const key = keyOf(item)
    return key !== undefined && this.#keys.has(key)
  }
}

/** Vendor data may be long. It is encrypted or signed, so its ends identify it. */
function keyOf(item: OutputItem): string | undefined {
  const data = vendorData(item)
  if (data === undefined) return undefined
  const json = JSON.stringify(data)
  return `${json.length} ${json.slice(0, END_CHARS)} ${json.slice(-END_CHARS)}`
}
