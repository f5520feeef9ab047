export function generateEventId(): string {
  return crypto.randomUUID()
}

const UUID =
  /^([0-9a-f]{8})-([0-9a-f]{4})-[0-9a-f]([0-9a-f]{3})-[0-9a-f]([0-9a-f]{3})-[0-9a-f]{8}([0-9a-f]{4})$/i

const LOW_BYTES = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/**
 * Generates the event ids of a run: UUIDs (version 8) made of the run's bits and a counter. They are unique,
 * sort in event order and are reproducible, so a log does not need to store them.
 */
export function eventIdsOf(runId: string, sequence = 0): () => string {
  const prefix = eventIdPrefix(runId)
  let next = sequence
  let high = ''
  return () => {
    next += 1
    // There is an id for every token, so only every 256th is built in full.
    if (high === '' || (next & 0xff) === 0) {
      const hex = Math.floor(next / 256).toString(16)
      high = prefix + hex.padStart(6, '0')
    }
    return high + LOW_BYTES[next & 0xff]
  }
}

function eventIdPrefix(runId: string): string {
  const bits = UUID.exec(runId)?.slice(1) ?? spread(runId)
  const [a = '', b = '', c = '', d = '', e = ''] = bits
  return `${a}-${b}-8${c}-a${d}-${e}`.toLowerCase()
}

/** Derives 88 bits from a run id that is not a UUID. */
function spread(text: string): string[] {
  const words = [0x9e3779b9, 0x85ebca6b, 0xc2b2ae35]
  for (let at = 0; at < text.length; at++) {
    for (const [index, word] of words.entries()) {
      words[index] = Math.imul(word ^ (text.charCodeAt(at) + index), 0x01000193 + 2 * index) >>> 0
    }
  }
  const hex = words.map((word) => word.toString(16).padStart(8, '0')).join('')
  const ends = [0, 8, 12, 15, 18, 22]
  return ends.slice(1).map((end, index) => hex.slice(ends[index], end))
}

/** Returns the id that clients know a call by: its item's if it has none, shortened on some APIs. */
export function clientCallId({ call_id, id = '' }: { call_id: string; id?: string }): string {
  return shortCallId(call_id || id)
}

const MAX_CALL_ID_CHARS = 64

/** Shortens call ids that OpenAI's Responses API would refuse, always to the same and nearly always to a unique id. */
export function shortCallId(callId: string): string {
  if (callId.length <= MAX_CALL_ID_CHARS) return callId
  let hash = 0xcbf29ce484222325n
  for (const char of callId) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(char.codePointAt(0) ?? 0)) * 0x100000001b3n)
  }
  return `${callId.slice(0, 47)}_${hash.toString(16).padStart(16, '0')}`
}
