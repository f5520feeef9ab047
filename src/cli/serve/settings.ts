import * as z from 'zod'
import { parseUrl } from '../../protocol/url.ts'
import { ANY_ORIGIN, hostNameOf, originOf } from '../../server/web/origins.ts'

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** The milliseconds of `500ms`, `10s`, `30m`, `24h` or `7d`; a number alone could mean any of them. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/.exec(text.trim())
  if (match === null) return undefined
  const [, amount, unit] = match
  const ms = Math.round(Number(amount) * UNITS[unit as keyof typeof UNITS])
  return Number.isSafeInteger(ms) && ms > 0 ? ms : undefined
}

/** For people: in the largest unit that leaves no fraction. */
export function formatDuration(ms: number): string {
  const units = Object.entries(UNITS).toReversed()
  const [unit, size] = units.find(([, size]) => ms % size === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}

/** One thing that an operator can set, in the file, in the environment and on the command line. */
export interface Setting<T> {
  readonly schema: z.ZodType<T>
  /** What it accepts, for the sentence that refuses anything else. */
  readonly takes: string
  readonly about: string
  /** Stands for the value in the help; missing for a switch, which on the command line is only named. */
  readonly placeholder?: string
  /** The default, as it would be written; missing where that depends. */
  readonly standard?: string
  /** What it may hold that is never repeated, and may stand in a file that `<variable>_FILE` names. */
  readonly secret?: string
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

/** A duration as text. `message` is the refusal. */
export function durationSchema(message: string): z.ZodType<number> {
  return z.string().transform((written, context) => {
    const ms = parseDuration(written)
    if (ms !== undefined) return ms
    context.addIssue(message)
    return z.NEVER
  })
}

const truth = z.union([
  z.boolean(),
  z.enum(['true', 'false', '1', '0']).transform((word) => word === 'true' || word === '1'),
])

const decimal = z.string().regex(/^\d+(\.\d+)?$/)

/** As a factor; 0 does not wait, as everywhere on the command line. */
const speed = z
  .union([z.number(), decimal.transform(Number)])
  .pipe(z.number().nonnegative())
  .transform((factor) => (factor === 0 ? Infinity : factor))

/** Several of a kind: a list in the file, and everywhere a text in which commas stand between them. */
function list(toEntry: (written: string) => string | undefined): z.ZodType<readonly string[]> {
  const separated = z.string().transform((written) => written.split(','))
  return z.union([z.array(z.string()), separated]).transform((written, context) => {
    const given = written.map((each) => each.trim()).filter((each) => each !== '')
    const entries = given.map(toEntry)
    if (entries.every((entry) => entry !== undefined)) return entries
    context.addIssue('an invalid entry')
    return z.NEVER
  })
}

/** A directory, `memory`, or the address of a Redis; other addresses are not directories. */
const store = text.refine((value) => {
  if (!/^[a-z][\w+.-]*:\/\//i.test(value)) return true
  return /^rediss?:\/\//i.test(value) && parseUrl(value) !== undefined
})

function word(takes: string, placeholder: string, about: string): Setting<string> {
  return { schema: text, takes, about, placeholder }
}

function span(about: string): Setting<number> {
  const takes = 'a number with its unit, such as 500ms, 10s, 30m, 24h or 7d'
  return { schema: durationSchema('not a duration'), takes, about, placeholder: 'time' }
}

function duration(about: string, standard: string): Settled<number> {
  return { ...span(about), standard }
}

function count(about: string, standard: string): Settled<number> {
  const schema = whole(1, Number.MAX_SAFE_INTEGER)
  return { schema, takes: 'a whole number from 1', about, standard, placeholder: 'n' }
}

/** A count that may be without end. */
function limit(about: string, standard: string): Settled<number> {
  const unlimited = z.literal('unlimited').transform(() => Infinity)
  const counted = count(about, standard)
  const schema = z.union([unlimited, counted.schema])
  return { ...counted, schema, takes: 'a whole number from 1, or unlimited' }
}

/** Off by default. */
function toggle(about: string): Settled<boolean> {
  return { schema: truth, takes: 'true or false', about, standard: 'false' }
}

/** Everything that can be set, except the providers, which have a part of the file of their own. */
export const SETTINGS = {
  host: { ...word('a host name or an address', 'where', 'where to listen'), standard: '127.0.0.1' },
  port: {
    schema: whole(0, 65_535),
    takes: 'a whole number from 0 to 65535',
    about: 'where to listen; 0 takes a free one',
    standard: '4010',
    placeholder: 'n',
  },
  store: {
    schema: store,
    takes: 'a directory, redis://…, rediss://… or memory',
    about: 'where turns are kept: a directory, redis://…, rediss://… or memory',
    standard: '.turnstream',
    placeholder: 'where',
    secret: 'the password of the store',
  },
  storePrefix: {
    ...word('a word', 'name', 'what the keys in Redis begin with'),
    standard: 'codex',
  },
  storeTimeout: duration(
    'how long Redis may leave a ping unanswered before it is reconnected',
    '3s',
  ),
  retention: span('how long a turn is kept after its end (7d; in Redis and in memory 24h)'),
  lease: duration('after how long without a sign of life a turn is taken for dead', '10s'),
  heartbeat: duration('how often a silent stream gets a comment', '15s'),
  shutdownGrace: duration('how long running turns may go on at shutdown', '30s'),
  maxBodyBytes: count('the largest body of a request', '4194304'),
  maxTurnChars: count('the most text of a turn, in characters', '10000000'),
  maxTurnItems: count('the most items of a turn', '2000'),
  maxTurnRounds: count('the most rounds of tool calls in a turn', '32'),
  maxTurnTime: duration('the longest that a turn may run', '30m'),
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
  headersTimeout: duration('the longest that the head of a request may take to arrive', '20s'),
  requestTimeout: duration('the longest that a whole request may take to arrive', '60s'),
  keepAliveTimeout: duration('the longest that a connection may wait for its next request', '72s'),
  writeTimeout: duration('the longest that a client may take nothing of its answer', '30s'),
  instance: word(
    'a name',
    'name',
    'the name of this process in the record of its turns (host name and process id)',
  ),
  defaultProvider: word(
    'the id of a provider',
    'name',
    'who answers when no model is asked for (the first that has a key, or scripted)',
  ),
  scriptedSpeed: {
    schema: speed,
    takes: 'a number, zero or more',
    about: 'how fast the scripted provider plays; 2 is twice as fast, 0 does not wait',
    standard: '1',
    placeholder: 'n',
  },
  keysFile: word(
    'the name of a file',
    'file',
    'the keys of those who may ask (none: everybody on this machine may)',
  ),
  streamTokenSecret: {
    schema: z.string().trim().min(32),
    takes: 'a text of at least 32 characters',
    about: 'what stream tokens are signed with, the same on all instances (random)',
    placeholder: 'text',
    secret: 'the secret of stream tokens',
  },
  corsOrigins: {
    schema: list((written) => (written === ANY_ORIGIN ? ANY_ORIGIN : originOf(written))),
    takes: 'origins such as https://app.example, with commas between them',
    about: 'the origins whose pages may use the API (none)',
    placeholder: 'list',
  },
  allowedHosts: {
    schema: list(hostNameOf),
    takes: 'names or addresses without a port, with commas between them',
    about: 'further names of this server, on loopback without keys; elsewhere its only ones',
    placeholder: 'list',
  },
  logContent: toggle('let the log repeat what was asked and answered, where an error quotes it'),
  logRequests: toggle('log every request, and the beginning and the end of every turn'),
  allowPublicWithoutKeys: toggle(
    'listen on addresses that other machines reach, although anybody there may use it',
  ),
} as const satisfies Record<string, Setting<string | number | boolean | readonly string[]>>

type Table = typeof SETTINGS
export type SettingName = keyof Table

type ValueOf<Name extends SettingName> =
  Table[Name] extends Settled<unknown>
    ? z.infer<Table[Name]['schema']>
    : z.infer<Table[Name]['schema']> | undefined

export type Settings = { readonly [Name in SettingName]: ValueOf<Name> }

export const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[]

export const SECRET_NAMES = SETTING_NAMES.filter((name) => 'secret' in SETTINGS[name])

/** `shutdownGrace` is `--shutdown-grace`. */
export function toFlag(name: SettingName): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

/** `shutdownGrace` is `TURNSTREAM_SHUTDOWN_GRACE`. */
export function toVariable(name: SettingName): string {
  return `TURNSTREAM_${toFlag(name).replaceAll('-', '_').toUpperCase()}`
}
