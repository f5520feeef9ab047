/** What can be done to the bytes of a request. */
import type { Dice } from './dice.ts'

/** Pieces that mean something to whoever reads the bytes. */
const TOKENS = [
  ...[
    '\r\n',
    '\n',
    '\r',
    '\r\n\r\n',
    '\0',
    ' ',
    '\t',
    ':',
    ',',
    ';',
    '"',
    '\\',
    '{',
    '}',
    '[',
    ']',
  ],
  ...[
    'HTTP/1.1',
    'HTTP/1.0',
    'HTTP/2.0',
    'GET ',
    'POST ',
    'CONNECT ',
    '/',
    '/../',
    '?',
    '#',
    '%',
    '%00',
  ],
  ...[
    'content-length: 5\r\n',
    'transfer-encoding: chunked\r\n',
    'host: evil.example\r\n',
    'expect: x\r\n',
  ],
  ...['connection: upgrade\r\nupgrade: h2c\r\n', 'connection: close\r\n', 'x-request-id: \x01\r\n'],
  ...['origin: https://evil.example\r\n', 'last-event-id: 9-9\r\n', 'idempotency-key: k\r\n'],
  ...['0\r\n\r\n', 'ffffffff\r\n', '"__proto__":', '\\u0000', '\\ud800', 'null', '1e999', '-1'],
].map((token) => Buffer.from(token, 'latin1'))

type Mutation = (bytes: Buffer, dice: Dice) => Buffer

const insertAt = (bytes: Buffer, at: number, more: Uint8Array) =>
  Buffer.concat([bytes.subarray(0, at), more, bytes.subarray(at)])

const MUTATIONS: readonly Mutation[] = [
  function flip(bytes, dice) {
    const flipped = Buffer.from(bytes)
    const at = dice.below(bytes.length)
    flipped[at] = (flipped[at] ?? 0) ^ (1 << dice.below(8))
    return flipped
  },
  function replace(bytes, dice) {
    const replaced = Buffer.from(bytes)
    replaced[dice.below(bytes.length)] = dice.below(256)
    return replaced
  },
  function remove(bytes, dice) {
    const at = dice.below(bytes.length)
    return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + dice.between(1, 20))])
  },
  function repeat(bytes, dice) {
    const at = dice.below(bytes.length)
    return insertAt(bytes, at, bytes.subarray(at, at + dice.between(1, 200)))
  },
  function insertToken(bytes, dice) {
    return insertAt(bytes, dice.below(bytes.length + 1), dice.pick(TOKENS))
  },
  function insertNoise(bytes, dice) {
    return insertAt(bytes, dice.below(bytes.length + 1), dice.bytes(dice.between(1, 40)))
  },
  function insertLine(bytes, dice) {
    const end = bytes.indexOf('\r\n')
    return end === -1 ? bytes : insertAt(bytes, end + 2, dice.pick(TOKENS))
  },
  function swap(bytes, dice) {
    const at = dice.below(bytes.length)
    return Buffer.concat([bytes.subarray(at), bytes.subarray(0, at)])
  },
  function bareLineEnds(bytes) {
    return Buffer.from(bytes.toString('latin1').replaceAll('\r\n', '\n'), 'latin1')
  },
]

export function mutated(bytes: Buffer, dice: Dice): Buffer {
  let changed = bytes
  for (let left = dice.between(1, 4); left > 0 && changed.length > 0; left--) {
    changed = dice.pick(MUTATIONS)(changed, dice)
  }
  return changed
}

/** The bytes in pieces, cut anywhere. */
export function cutUp(bytes: Buffer, dice: Dice): Buffer[] {
  const cuts = dice.times(dice.between(1, 6), () => dice.below(bytes.length + 1))
  const places = [0, ...cuts.toSorted((a, b) => a - b), bytes.length]
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end))
}
