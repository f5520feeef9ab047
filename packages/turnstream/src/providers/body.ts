/** Takes a chunk of a body, and returns whether to read on. */
export type TakeChunk = (chunk: Uint8Array) => boolean | Promise<boolean>

/** A response that can be read without a web stream, which costs several promises per chunk. */
export interface ChunkedResponse extends Response {
  /** Reads the body. Resolves at its end or when `take` has enough, and rejects if it breaks off. */
  readChunks(take: TakeChunk): Promise<void>
}

export async function readBody(response: Response, take: TakeChunk): Promise<void> {
  if (isChunked(response)) return response.readChunks(take)
  const reader = response.body?.getReader()
  for (;;) {
    const chunk = await reader?.read()
    if (chunk?.value === undefined) return
    if (await take(chunk.value)) continue
    // Nothing depends on it.
    reader?.cancel().catch(() => {})
    return
  }
}

function isChunked(response: Response): response is ChunkedResponse {
  return 'readChunks' in response
}
