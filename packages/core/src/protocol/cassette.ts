import type { CASSETTE_FORMAT, CASSETTE_VERSION } from './names.ts'

/** The first line. */
export interface CassetteHeader {
  format: typeof CASSETTE_FORMAT
  version: typeof CASSETTE_VERSION
  /** In milliseconds since the epoch. Every `at` counts from it. */
  createdAt: number
  turnId?: string
  threadId?: string
  /** Of the turn, in recordings of a gateway. */
  tenant?: string
}

export interface CassetteRequest {
  /** Name of the adapter that reads the response. */
  vendor?: string
  method: string
  url: string
  headers: Record<string, string>
  /** The JSON value, or the text of a body that is not JSON. */
  body?: unknown
  /** The body was too large to record. */
  truncated?: boolean
}

export interface CassetteResponse {
  status: number
  headers: Record<string, string>
}

/** How a call ended: as the provider meant it, by its client, by a failure, or at the size limit of the recording. */
export type CallEnd = 'complete' | 'aborted' | 'failed' | 'limit'
