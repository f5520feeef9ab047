/** Counts what inputs cost, for the table of chosen costs. */

import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { encodeHeader } from '../../../../core/src/cassettes/cassette.ts'
import { CassetteDecoder, type CassetteLimits } from '../../../../core/src/cassettes/decode.ts'
import { hasCode } from '../../../../core/src/protocol/errors.ts'
import { JsonBounds } from '../../../src/server/json-bounds.ts'
import { connectMcpTools } from '../../../src/server.ts'
import { startServer } from '../support.ts'

export const KB = 1024

/** What an input cost. */
export interface Cost {
  /** Steps or bytes, as the row says. */
  readonly spent: number
  /** Why it was refused. */
  readonly code?: string | undefined
}

export interface Row {
  readonly bound: number
  /** What is counted. */
  readonly unit: string
  /** Feeds an input of this size. */
  readonly feed: (size: number) => Cost | Promise<Cost>
  /** The most that ten times the bound may cost. */
  readonly most: number
  readonly code?: string
}

export const times = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at))

/** Replaces a method until the end of the test by one that counts, and calls it. */
export function count<T extends object>(
  owner: T,
  name: keyof T,
  weigh: (...args: never[]) => number,
): () => number {
  const original = owner[name] as (...args: unknown[]) => unknown
  let sum = 0
  Object.assign(owner, {
    [name](this: unknown, ...args: never[]) {
      sum += weigh(...args)
      return original.apply(this, args)
    },
  })
  onTestFinished(() => void Object.assign(owner, { [name]: original }))
  return () => sum
}

export const one = () => 1

export async function post(path: string, body: unknown, more: object = {}) {
  const server = await startServer(more)
  const scanned = count(JsonBounds.prototype, 'add', ({ length }: Uint8Array) => length)
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  // Servers of other tests may still be at work.
  const isOfBody = (each: string) =>
    text.includes(each.slice(0, 64)) ||
    text.includes(JSON.stringify(each.slice(0, 64)).slice(1, -1))
  const parsed = count(JSON, 'parse', (each: string) =>
    each.length > KB && isOfBody(each) ? each.length : 0,
  )
  const response = await fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    // Without a declared length, by which it could be refused at once.
    body: new Blob([text]).stream(),
    duplex: 'half',
  } as RequestInit)
  const spent = { scanned: scanned(), parsed: parsed() }
  const answer = await response.text()
  const { error } = JSON.parse(answer) as { error?: { code?: string; type?: string } }
  return { ...spent, server, response, answer, code: error?.code ?? error?.type }
}

/** The bytes of a body that are looked at and kept before it is refused, and those that are parsed. */
export async function readOf(body: unknown, more: object = {}): Promise<Cost> {
  const { scanned, parsed, code } = await post('/api/v2/submit', body, more)
  return { spent: scanned + parsed, code }
}

/** How many turns a request to a vendor's API starts. */
export async function turnsOf(path: string, body: object): Promise<Cost> {
  const { server, code } = await post(path, { model: 'plain/m', ...body })
  return { spent: (await server.log.listThreads()).items.length, code }
}

export const CHAT = { model: 'plain/m', messages: [{ role: 'user', content: 'Hi' }] }

export function fields(size: number): Record<string, number> {
  return Object.fromEntries(times(size, (at) => [`f${String(at).padStart(6, '0')}`, at % 10]))
}

export function nested(levels: number, read: () => void): object {
  let schema: object = {}
  for (let level = 1; level < levels; level++) {
    const inner = schema
    schema = {
      type: 'object',
      get not() {
        read()
        return inner
      },
    }
  }
  return schema
}

export function decodeCassette(limits: CassetteLimits, lines: readonly string[]): Cost {
  const parses = count(JSON, 'parse', ({ length }: string) => length)
  const bytes = new TextEncoder().encode(`${encodeHeader({ createdAt: 0 })}${lines.join('\n')}\n`)
  const decoder = new CassetteDecoder(limits)
  try {
    for (let at = 0; at < bytes.length; at += KB) decoder.feed(bytes.subarray(at, at + KB))
    return { spent: parses() }
  } catch (error) {
    return { spent: parses(), code: hasCode(error, 'CASSETTE_TOO_LARGE') ? error.code : 'other' }
  }
}

export const IMAGE = `data:image/png;base64,${Buffer.from('\u0089PNG\r\n', 'latin1').toString('base64')}`
const SERVER = fileURLToPath(new URL('../../tools/flooding-server.mjs', import.meta.url))

export async function connectTools(count: number, maxOutputBytes: number) {
  const server = { command: process.execPath, args: [SERVER, String(count)] }
  const source = await connectMcpTools({ name: 'flooding', server, maxOutputBytes })
  onTestFinished(() => source.close())
  return source
}
