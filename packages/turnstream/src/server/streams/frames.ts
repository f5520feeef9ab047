import {
  AppendEncoder,
  appendFrameOf,
  appendSse,
  asCreated,
  type TextSnapshot,
  textSnapshotOf,
} from '@turnstream/core/internal/formats/xapi/write'
import type { LogRecord } from '@turnstream/core/internal/log/turn-log'
import type { AppendFrame } from '@turnstream/core/internal/protocol/append-frame'
import { encodeSse } from '@turnstream/core/internal/sse/encode'

const LINE_END = '\r\n'

/**
 * Complete SSE frames, encoded once for all readers, as an HTTP/1.1 chunk: Node would write its parts for each of them.
 */
export class Frame {
  /** The cursor of the frame, if any. */
  readonly id: string | undefined
  readonly chunk: Buffer
  readonly #start: number

  constructor(text: string, id?: string) {
    const size = Buffer.byteLength(text).toString(16)
    this.id = id
    this.chunk = Buffer.from(`${size}${LINE_END}${text}${LINE_END}`)
    this.#start = size.length + LINE_END.length
  }

  get bytes(): Uint8Array<ArrayBuffer> {
    return this.chunk.subarray(this.#start, -LINE_END.length) as Uint8Array<ArrayBuffer>
  }
}

/** The last chunk of a body. */
export const LAST_CHUNK = Buffer.from(`0${LINE_END}${LINE_END}`)

/** `append` sends only what was added to a growing text. For the log `processed` only. */
export type StreamEncoding = 'append' | 'snapshot'

/**
 * Encodes a record. A reader that leaves after a frame without `id` gets it again. `isFirst`: it has none of the item.
 */
export type ToFrame = (record: LogRecord, id: string | undefined, isFirst?: boolean) => Frame

/** Encodes records as frames, once for all readers at the same position. A frame lives as long as its record. */
export class RecordFrames {
  readonly #frames = new WeakMap<LogRecord, Frame>()
  /** The frames of updates that are the first of their item for a reader. */
  readonly #created = new WeakMap<LogRecord, Frame>()
  readonly #snapshots = new WeakMap<LogRecord, TextSnapshot | 'none'>()
  readonly #appends = new WeakMap<LogRecord, { readonly at: number; readonly frame: Frame }>()
  readonly #isOfSeveral: boolean

  /** For streams of several threads, appends name their turn and thread, as snapshots do. */
  constructor({ isOfSeveral = false } = {}) {
    this.#isOfSeveral = isOfSeveral
  }

  encoder(encoding: StreamEncoding): ToFrame {
    if (encoding === 'snapshot') return this.#toFrame
    const encoder = new AppendEncoder()
    return (record, id, isFirst) => {
      const snapshot = this.#snapshotOf(record)
      const at = snapshot && encoder.place(snapshot)
      if (snapshot === undefined || at === undefined) return this.#toFrame(record, id, isFirst)
      return this.#toAppend(record, id, snapshot, at)
    }
  }

  readonly #toFrame: ToFrame = (record, id, isFirst = false) => {
    const created = isFirst && 'output' in record ? asCreated(record) : undefined
    const frames = created === undefined ? this.#frames : this.#created
    const known = frames.get(record)
    if (known !== undefined && known.id === id) return known
    const data = created ?? record.data
    const frame = new Frame(id === undefined ? encodeSse({ data }) : encodeSse({ id, data }), id)
    frames.set(record, frame)
    return frame
  }

  #snapshotOf(record: LogRecord): TextSnapshot | undefined {
    let snapshot = this.#snapshots.get(record)
    if (snapshot === undefined) {
      snapshot = ('output' in record ? textSnapshotOf(record.output) : undefined) ?? 'none'
      this.#snapshots.set(record, snapshot)
    }
    return snapshot === 'none' ? undefined : snapshot
  }

  #toAppend(record: LogRecord, id: string | undefined, snapshot: TextSnapshot, at: number): Frame {
    const known = this.#appends.get(record)
    if (known !== undefined && known.at === at && known.frame.id === id) return known.frame
    const append = appendFrameOf(snapshot, at)
    const frame = new Frame(appendSse(id, this.#isOfSeveral ? named(record, append) : append), id)
    this.#appends.set(record, { at, frame })
    return frame
  }
}

function named(record: LogRecord, append: AppendFrame): AppendFrame {
  if (!('output' in record)) return append
  const { threadId, turnId } = record.output
  return { threadId, turnId, ...append }
}
