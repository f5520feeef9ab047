import * as z from 'zod'
import { hostNameOf } from '../../server/web/hosts.ts'
import { ANY_ORIGIN, originOf } from '../../server/web/origins.ts'
import { parseDuration } from './duration.ts'

/** One thing that an operator can set, in the file, in the environment and on the command line. */
export interface Setting<T> {
  readonly schema: z.ZodType<T>
  /** What it accepts, for the sentence that refuses anything else. */
  readonly takes: string
  readonly about: string
  /** What holds when nobody sets it, as it would be written; missing where that depends. */
  readonly standard?: string
  /** May hold a password, and is therefore never repeated. */
  readonly isSecret?: boolean
  /** On the command line it is enough to name it. */
  readonly isSwitch?: boolean
}

/** One that always has a value. */
interface Settled<T> extends Setting<T> {
  readonly standard: string
}

const text = z.string().trim().min(1)

function whole(min: number, max: number): z.ZodType<number> {
  const digits = z.string().regex(/^\d+$/).transform(Number)
  return z.union([z.number(), digits]).pipe(z.int().min(min).max(max))
}

const duration = z.string().transform((written, context) => {
  const ms = parseDuration(written)
  if (ms !== undefined) return ms
  context.addIssue('not a duration')
  return z.NEVER
})

const truth = z.union([
  z.boolean(),
  z.enum(['true', 'false', '1', '0']).transform((word) => word === 'true' || word === '1'),
])

/** As a factor; 0 is without waiting, as everywhere on the command line. */
const speed = z
  .union([
    z.number(),
    z
      .string()
      .regex(/^\d+(\.\d+)?$/)
      .transform(Number),
  ])
  .pipe(z.number().nonnegative())
  .transform((factor) => (factor === 0 ? Infinity : factor))

/** Several of a kind: a list in the file, and everywhere a text in which commas stand between them. */
function list(toEntry: (written: string) => string | undefined): z.ZodType<readonly string[]> {
  const separated = z.string().transform((written) => written.split(','))
  return z.union([z.array(z.string()), separated]).transform((written, context) => {
    const given = written.map((each) => each.trim()).filter((each) => each !== '')
    const entries = given.map(toEntry)
    if (entries.every((entry) => entry !== undefined)) return entries
    context.addIssue('an entry that is none')
    return z.NEVER
  })
}

/** A directory, `memory`, or the address of a Redis; other addresses are no directories. */
const store = text.refine((value) => !/^[a-z][\w+.-]*:\/\//i.test(value) || isRedis(value))

function isRedis(value: string): boolean {
  return /^rediss?:\/\//i.test(value) && URL.canParse(value)
}

const SPAN = 'a number with its unit, such as 500ms, 10s, 30m, 24h or 7d'

function span(about: string, standard: string): Settled<number> {
  return { schema: duration, takes: SPAN, about, standard }
}

function count(about: string, standard: string): Settled<number> {
  const schema = whole(1, Number.MAX_SAFE_INTEGER)
  return { schema, takes: 'a whole number from 1', about, standard }
}

/** A count that may be without end. */
function limit(about: string, standard: string): Settled<number> {
  const unlimited = z.literal('unlimited').transform(() => Infinity)
  const schema = z.union([unlimited, whole(1, Number.MAX_SAFE_INTEGER)])
  return { schema, takes: 'a whole number from 1, or unlimited', about, standard }
}

/** Everything that can be set, but the providers, which have a file or an environment of their own. */
export const SETTINGS = {
  host: {
    schema: text,
    takes: 'a host name or an address',
    about: 'where to listen',
    standard: '127.0.0.1',
  },
  port: {
    schema: whole(0, 65_535),
    takes: 'a whole number from 0 to 65535',
    about: 'where to listen; 0 takes a free one',
    standard: '4010',
  },
  store: {
    schema: store,
    takes: 'a directory, redis://…, rediss://… or memory',
    about: 'where turns are kept: a directory, redis://…, rediss://… or memory',
    standard: '.turnstream',
    isSecret: true,
  },
  storePrefix: {
    schema: text,
    takes: 'a word',
    about: 'what the keys in Redis begin with',
    standard: 'codex',
  },
  storeTimeout: span('how long Redis may leave a ping unanswered before it is reconnected', '3s'),
  retention: {
    schema: duration,
    takes: SPAN,
    about: 'how long a turn is kept after its end (7d; in Redis and in memory 24h)',
  },
  lease: span('after how long without a sign of life a turn is taken for dead', '10s'),
  heartbeat: span('how often a silent stream gets a comment', '15s'),
  shutdownGrace: span('how long running turns may go on at shutdown', '30s'),
  maxBodyBytes: count('the largest body of a request', '4194304'),
  maxTurnChars: count('the most text of a turn, in characters', '10000000'),
  maxTurnItems: count('the most items of a turn', '2000'),
  maxTurnRounds: count('the most rounds of tool calls in a turn', '32'),
  maxTurnTime: span('the longest that a turn may run', '30m'),
  maxHistoryBytes: count('the most of a thread that a provider is sent, in bytes', '8388608'),
  maxHistoryTokens: count('the same in estimated tokens', '2000000'),
  submitsPerMinute: limit('the most turns that a key may submit in a minute', '60'),
  maxRunningTurns: limit('the most turns of a key that run at a time', '10'),
  maxOpenStreams: limit('the most streams that a key may have open', '200'),
  maxConcurrentReads: limit('the most reads of a key in progress at a time', '100'),
  maxUnsentBytes: limit('the most bytes that clients of a key may leave unread', '67108864'),
  maxThreads: limit('the most stored threads of a tenant', '100000'),
  maxConnections: limit('the most connections that are open at a time', '10000'),
  maxUrlBytes: count('the longest address of a request', '8192'),
  maxHeaderBytes: count('the most headers of a request, in bytes', '16384'),
  headersTimeout: span('the longest that the head of a request may take to arrive', '20s'),
  requestTimeout: span('the longest that a whole request may take to arrive', '60s'),
  keepAliveTimeout: span('the longest that a connection may wait for its next request', '72s'),
  writeTimeout: span('the longest that a client may take nothing of its answer', '30s'),
  instance: {
    schema: text,
    takes: 'a name',
    about: 'the name of this process in the record of its turns (host name and process id)',
  },
  defaultProvider: {
    schema: text,
    takes: 'the id of a provider',
    about: 'who answers when no model is asked for (the first that has a key, or scripted)',
  },
  scriptedSpeed: {
    schema: speed,
    takes: 'a number, zero or more',
    about: 'how fast the scripted provider plays; 2 is twice as fast, 0 does not wait',
    standard: '1',
  },
  keysFile: {
    schema: text,
    takes: 'the name of a file',
    about: 'the keys of those who may ask (none: everybody on this machine may)',
  },
  streamTokenSecret: {
    schema: z.string().trim().min(32),
    takes: 'a text of at least 32 characters',
    about: 'what stream tokens are signed with, the same on all instances (random)',
    isSecret: true,
  },
  corsOrigins: {
    schema: list((written) => (written === ANY_ORIGIN ? ANY_ORIGIN : originOf(written))),
    takes: 'origins such as https://app.example, with commas between them',
    about: 'the origins whose pages may use the API (none)',
  },
  allowedHosts: {
    schema: list(hostNameOf),
    takes: 'names or addresses without a port, with commas between them',
    about: 'further names of this server, on loopback without keys; elsewhere its only ones',
  },
  logContent: {
    schema: truth,
    takes: 'true or false',
    about: 'let the log repeat what was asked and answered, where an error quotes it',
    standard: 'false',
    isSwitch: true,
  },
  logRequests: {
    schema: truth,
    takes: 'true or false',
    about: 'log every request, and the beginning and the end of every turn',
    standard: 'false',
    isSwitch: true,
  },
  allowPublicWithoutKeys: {
    schema: truth,
    isSwitch: true,
    takes: 'true or false',
    about: 'listen on addresses that other machines reach, although anybody there may use it',
    standard: 'false',
  },
} as const satisfies Record<string, Setting<string | number | boolean | readonly string[]>>

type Table = typeof SETTINGS
export type SettingName = keyof Table

type ValueOf<Name extends SettingName> =
  Table[Name] extends Settled<unknown>
    ? z.infer<Table[Name]['schema']>
    : z.infer<Table[Name]['schema']> | undefined

export type Settings = { readonly [Name in SettingName]: ValueOf<Name> }

export const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[]

/** `shutdownGrace` is `--shutdown-grace`. */
export function flagOf(name: SettingName): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

/** `shutdownGrace` is `TURNSTREAM_SHUTDOWN_GRACE`. */
export function variableOf(name: SettingName): string {
  return `TURNSTREAM_${flagOf(name).replaceAll('-', '_').toUpperCase()}`
}
