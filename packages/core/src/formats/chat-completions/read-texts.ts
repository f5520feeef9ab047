/** The texts of one response: consecutive items, each of one kind. */
import type { Fields } from '../fields.ts'
import type { ResponseWriter } from '../translation.ts'
import type { MessageExtras, ReasoningField, TextKind, TextPiece } from './decode.ts'

interface OpenText {
  kind: TextKind
  key: string
  field: ReasoningField | undefined
  details: Fields[]
  annotations: unknown[]
  images: unknown[]
  extra: Fields | undefined
}

export class ChatTexts {
  isRefusal = false
  readonly #writer: ResponseWriter
  readonly #metadata: (fields: Fields) => Fields
  #open: OpenText | undefined
  #count = 0

  constructor(writer: ResponseWriter, metadata: (fields: Fields) => Fields) {
    this.#writer = writer
    this.#metadata = metadata
  }

  add({ kind, text, field }: TextPiece): void {
    const open = this.#reach(kind)
    if (kind === 'refusal') this.isRefusal = true
    open.field ??= field
    this.#writer.append(open.key, text)
  }

  /** Signatures and encrypted reasoning also come in fragments, often without text. */
  addReasoningDetails(details: readonly Fields[]): void {
    if (details.length === 0) return
    const open = this.#reach('reasoning')
    for (const detail of details) addDetail(open.details, detail)
  }

  addExtras({ annotations, images, extra }: MessageExtras): void {
    const open = this.#reach('message')
    open.annotations.push(...annotations)
    open.images.push(...images)
    if (extra !== undefined) open.extra = { ...open.extra, ...extra }
  }

  close(): void {
    if (this.#open === undefined) return
    const { key } = this.#open
    this.#writer.finishItem(key, { provider_metadata: this.#metadata(keptOf(this.#open)) })
    this.#open = undefined
  }

  /** The open item of this kind. Ends an item of another kind. */
  #reach(kind: TextKind): OpenText {
    if (this.#open?.kind === kind) return this.#open
    this.close()
    this.#count += 1
    const key = `text-${this.#count}`
    this.#writer.openItem(key, kind === 'reasoning' ? 'reasoning' : 'message', {
      provider_metadata: this.#metadata(kind === 'refusal' ? { refusal: true } : {}),
    })
    const nothing = { details: [], annotations: [], images: [], extra: undefined }
    this.#open = { kind, key, field: undefined, ...nothing }
    return this.#open
  }
}

function keptOf({ kind, field, details, annotations, images, extra }: OpenText): Fields {
  return {
    ...(kind === 'refusal' && { refusal: true }),
    ...(field !== undefined && { field }),
    ...(details.length > 0 && { reasoning_details: details }),
    ...(annotations.length > 0 && { annotations }),
    ...(images.length > 0 && { images }),
    ...(extra !== undefined && { extra_content: extra }),
  }
}

const GROWING_FIELDS = ['text', 'summary', 'data'] as const

/** Merges fragments of one detail: the vendor wants it back complete. */
function addDetail(details: Fields[], piece: Fields): void {
  const last = details.at(-1)
  const isSame = last?.['type'] === piece['type'] && last?.['index'] === piece['index']
  if (last === undefined || !isSame) {
    details.push({ ...piece })
    return
  }
  for (const [name, value] of Object.entries(piece)) {
    const before = last[name]
    const grows = (GROWING_FIELDS as readonly string[]).includes(name)
    if (grows && typeof before === 'string' && typeof value === 'string')
      last[name] = before + value
    else if (value !== null && value !== undefined) last[name] = value
  }
}
