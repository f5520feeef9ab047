import type { Clock } from '../../async/clock.ts'
import { RedisKeys } from '../../log/redis/keys.ts'
import type { ClockReading } from './clock-check.ts'
import { LOOK_LIMIT_MS } from './http-look.ts'
import { messageOf } from './words.ts'

/** What a Redis says of itself. */
export interface RedisFacts {
  /** The fields of INFO. */
  readonly info: ReadonlyMap<string, string>
  readonly roundTripMs: number
  readonly time: ClockReading
  /** What the keys of this prefix are written in; undefined when there are none. */
  readonly format: string | undefined
  /** Why a write was refused; undefined when it was not. */
  readonly refusal: string | undefined
}

interface RedisLook {
  readonly url: string
  readonly prefix: string
  readonly clock: Clock
}

type Send = (...args: string[]) => Promise<unknown>

/** Asks a Redis, within the limit of a look. Rejects with what the client or the server says. Writes nothing. */
export async function redisFacts({ url, prefix, clock }: RedisLook): Promise<RedisFacts> {
  const { createClient } = await import('@redis/client')
  const socket = { reconnectStrategy: () => false as const, connectTimeout: LOOK_LIMIT_MS }
  const client = createClient({ url, socket, disableOfflineQueue: true })
  // The same comes from the call that it concerns.
  client.on('error', () => {})
  const asked = client
    .connect()
    .then(() => ask((...args) => client.sendCommand(args), prefix, clock))
  try {
    return await withinLimit(asked, clock)
  } finally {
    client.destroy()
  }
}

async function withinLimit<T>(asked: Promise<T>, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const stopWaiting = clock.after(LOOK_LIMIT_MS, () => {
      reject(new Error(`no answer within ${LOOK_LIMIT_MS / 1000} s`))
    })
    asked.then(resolve, reject).finally(stopWaiting)
  })
}

async function ask(send: Send, prefix: string, clock: Clock): Promise<RedisFacts> {
  const { format: formatKey } = new RedisKeys(prefix)
  await send('PING')
  const from = clock.now()
  const before = performance.now()
  const [seconds, micros] = (await send('TIME')) as [string, string]
  const roundTripMs = performance.now() - before
  const theirs = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
  const time = { source: 'Redis', theirs, from, to: clock.now(), stepMs: 1 }
  const info = fieldsOf(String(await send('INFO')))
  const format = await send('GET', formatKey)
  return {
    info,
    roundTripMs,
    time,
    format: typeof format === 'string' ? format : undefined,
    refusal: await refusalOf(send, formatKey),
  }
}

/**
 * A write is put into a transaction that is then thrown away. That a server is a replica, that its memory is
 * full and that the user may not write is told when the command is put there, and nothing was changed.
 */
async function refusalOf(send: Send, key: string): Promise<string | undefined> {
  try {
    await send('MULTI')
    await send('SET', key, '0')
    return undefined
  } catch (error) {
    return messageOf(error)
  } finally {
    await send('DISCARD').catch(() => {}) // the connection ends with the check, and what was queued with it
  }
}

function fieldsOf(info: string): Map<string, string> {
  const lines = info.split(/\r?\n/).filter((line) => /^\w+:/.test(line))
  return new Map(
    lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
  )
}
