import { MAX_ARGUMENT_CHARS } from '@turnstream/core/internal/formats/translation'
import { BASE_URL_TAKES, isBaseUrl } from '@turnstream/core/internal/formats/vendor-request'
import { DEFAULT_PROCESSOR } from '@turnstream/core/internal/processor/options'
import { suggestion } from '@turnstream/core/internal/protocol/nearest'
import { parseUrl } from '@turnstream/core/internal/protocol/url'
import * as z from 'zod'
import { WRITE_RETRY } from '../../log/writer.ts'
import { ANY_ORIGIN, hostNameOf, originOf } from '../../server/web/origins.ts'
import { PROCESSOR_BOUNDS } from '../../turns/processor-settings.ts'
import { UsageError } from '../command.ts'

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** The milliseconds of `500ms`, `10s`, `30m`, `24h` or `7d`; a number alone could mean any of them. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/.exec(text.trim())
  if (match === null) return undefined
  const [, amount, unit] = match
  const ms = Math.round(Number(amount) * UNITS[unit as keyof typeof UNITS])
  return Number.isSafeInteger(ms) && ms > 0 ? ms : undefined
}

export function formatDuration(ms: number): string {
  const units = Object.entries(UNITS).toReversed()
  const [unit, size] = units.find(([, size]) => ms % size === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}

/** A setting of the file, the environment and the command line. */
export interface Setting<T> {
  readonly schema: z.ZodType<T>
  readonly takes: string
  readonly about: string
  /** The placeholder of the value in the help; missing for a switch. */
  readonly placeholder?: string
  /** The default, as text; missing when it depends on others. */
  readonly standard?: string
  /** Names the secret it may contain: never printed, and readable from the file in `<variable>_FILE`. */
  readonly secret?: string
}

/** A duration, in milliseconds once it is decoded. */
interface Span extends Setting<number> {
  readonly unit: 'ms'
}

interface Settled<T> extends Setting<T> {
  readonly standard: string
}

const text = z.string().trim().min(1)

/** Parts of the schemas of providers, tools and codex. */
export const nameSchema = z.string().trim().min(1, 'must be a name')
export const variableSchema = z
  .string()
  .regex(/^[A-Z][A-Z0-9_]*$/, 'must be the name of an environment variable, such as GROQ_API_KEY')
export const baseUrlSchema = z.string().refine(isBaseUrl, { error: `must be ${BASE_URL_TAKES}` })
export const countSchema = z.int('must be an integer from 1').min(1, 'must be an integer from 1')
export const flagSchema = z.boolean('must be true or false')

function integer(min: number, max: number): z.ZodType<number> {
  const digits = z.string().regex(/^\d+$/).transform(Number)
  return z.union([z.number(), digits]).pipe(z.int().min(min).max(max))
}

/** A duration as text, in milliseconds once it is decoded. */
export const durationSchema: z.ZodType<number> = z.string().transform((written, context) => {
  const ms = parseDuration(written)
  if (ms !== undefined) return ms
  context.addIssue('must be a duration such as 500ms, 10s or 5m')
  return z.NEVER
})

const truth = z.union([
  z.boolean(),
  z.enum(['true', 'false', '1', '0']).transform((word) => word === 'true' || word === '1'),
])

const decimal = z.string().regex(/^\d+(\.\d+)?$/)

/** A factor; 0 does not wait. */
const speed = z
  .union([z.number(), decimal.transform(Number)])
  .pipe(z.number().nonnegative())
  .transform((factor) => (factor === 0 ? Infinity : factor))

/** A list in the file, or comma-separated text. */
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

/** A directory, `memory` or a Redis URL. Other URLs are refused rather than used as directories. */
const store = text.refine((value) => {
  if (!/^[a-z][\w+.-]*:\/\//i.test(value)) return true
  return /^rediss?:\/\//i.test(value) && parseUrl(value) !== undefined
})

function word(takes: string, placeholder: string, about: string): Setting<string> {
  return { schema: text, takes, about, placeholder }
}

function span(about: string): Span {
  const takes = 'a duration such as 500ms, 10s, 30m, 24h or 7d'
  return { schema: durationSchema, takes, about, placeholder: 'time', unit: 'ms' }
}

function duration(about: string, standard: string): Span & Settled<number> {
  return { ...span(about), standard }
}

function optionalDuration(about: string, standard: string): Span & Settled<number> {
  const setting = duration(about, standard)
  const zero = z.union([z.literal(0), z.literal('0')]).transform(() => 0)
  return { ...setting, schema: z.union([zero, setting.schema]), takes: `${setting.takes}, or 0` }
}

function count(about: string, standard: string): Settled<number> {
  const schema = integer(1, Number.MAX_SAFE_INTEGER)
  return { schema, takes: 'an integer ≥ 1', about, standard, placeholder: 'n' }
}

const unlimited = z.literal('unlimited').transform(() => Infinity)

function limit(about: string, standard: string): Settled<number> {
  const counted = count(about, standard)
  const schema = z.union([unlimited, counted.schema])
  return { ...counted, schema, takes: 'an integer ≥ 1, or unlimited' }
}

/** A duration of the processor, with its default in milliseconds. */
function delay(about: string, standardMs: number): Span & Settled<number> {
  const { ms } = PROCESSOR_BOUNDS
  const setting = duration(about, formatDuration(standardMs))
  const takes = `a duration of at most ${formatDuration(ms)}, such as 500ms or 2s`
  return { ...setting, takes, schema: setting.schema.pipe(z.number().max(ms)) }
}

const gradient: Setting<readonly number[]> = {
  schema: z
    .union([
      z.array(z.number()),
      z.literal('none').transform((): number[] => []),
      z.string().transform((written) => written.split(',').map((each) => Number(each.trim()))),
    ])
    .pipe(z.array(z.int().min(1).max(PROCESSOR_BOUNDS.tokens)).max(PROCESSOR_BOUNDS.steps)),
  takes: `up to ${PROCESSOR_BOUNDS.steps} comma-separated integers from 1 to ${PROCESSOR_BOUNDS.tokens}, or none`,
  about: 'tokens between snapshots, or none (10,10,10,10,20,…,2000)',
  placeholder: 'list',
}

function toggle(about: string): Settled<boolean> {
  return { schema: truth, takes: 'true or false', about, standard: 'false' }
}

/** All settings, except providers, tools and codex, which have their own parts of the file. */
export const SETTINGS = {
  host: {
    ...word('a host name or an address', 'address', 'address to listen on'),
    standard: '127.0.0.1',
  },
  port: {
    schema: integer(0, 65_535),
    takes: 'an integer from 0 to 65535',
    about: 'port to listen on; 0 picks a free one',
    standard: '4010',
    placeholder: 'n',
  },
  store: {
    schema: store,
    takes: 'a directory, redis://…, rediss://… or memory',
    about: 'directory, redis://…, rediss://… or memory',
    standard: '.turnstream',
    placeholder: 'where',
    secret: 'the password of the store',
  },
  storePrefix: {
    ...word('a word', 'name', 'prefix of all keys in Redis'),
    standard: 'codex',
  },
  storeTimeout: duration('reconnect to Redis when a ping is unanswered for this long', '3s'),
  retention: span('how long to keep a turn after its end (7d; Redis and memory 24h)'),
  storeFalse: {
    schema: z.enum(['delete', 'keep']),
    takes: 'delete or keep',
    about: 'whether to delete or keep ended responses with store: false',
    standard: 'delete',
    placeholder: 'what',
  },
  lease: duration('declare a turn orphaned when not renewed for this long', '10s'),
  heartbeat: duration('interval of heartbeat comments on silent streams', '15s'),
  reattach: optionalDuration('how long a repeated request may join its turn; 0 for never', '2m'),
  shutdownGrace: duration('how long running turns may continue at shutdown', '30s'),
  maxBodyBytes: count('max. size of a request body', '4194304'),
  maxVendorBodyBytes: count('max. size of a request body on vendor APIs', '33554432'),
  maxTurnChars: count('max. text of a turn, in characters', '10000000'),
  maxTurnItems: count('max. items of a turn', '2000'),
  maxTurnRounds: count('max. rounds of tool calls in a turn', '32'),
  maxParallelTools: count('max. parallel server tool calls of a turn', '8'),
  maxTurnTime: duration('max. run time of a turn', '30m'),
  maxApprovalTime: duration('max. wait of a tool call for approval', '10m'),
  maxHistoryBytes: count('max. thread history sent to a provider, in bytes', '33554432'),
  maxHistoryTokens: count('max. thread history in estimated tokens', '2000000'),
  'processor.batchGradient': gradient,
  'processor.batchTimeout': delay(
    'emit a snapshot after this long without new text',
    DEFAULT_PROCESSOR.batchTimeoutMs,
  ),
  'processor.maxLatency': delay(
    'max. wait of text for its snapshot',
    DEFAULT_PROCESSOR.maxLatencyMs,
  ),
  'processor.retryAttempts': {
    schema: z.union([unlimited, integer(0, PROCESSOR_BOUNDS.attempts)]),
    takes: `an integer from 0 to ${PROCESSOR_BOUNDS.attempts}, or unlimited`,
    about: 'max. retries of a failed write to the store, within the lease',
    standard: 'unlimited',
    placeholder: 'n',
  },
  'processor.retryBase': delay(
    'first delay of these retries, then doubled',
    WRITE_RETRY.retryBaseMs,
  ),
  'processor.retryMax': delay('longest delay of these retries', WRITE_RETRY.retryMaxMs),
  'processor.maxArgumentChars': {
    ...count('max. arguments of a tool call, in characters', String(MAX_ARGUMENT_CHARS)),
    schema: integer(1, PROCESSOR_BOUNDS.argumentChars),
    takes: `an integer from 1 to ${PROCESSOR_BOUNDS.argumentChars}`,
  },
  submitsPerMinute: limit('max. submits per key and minute', '60'),
  maxRunningTurns: limit('max. running turns per key', '10'),
  maxOpenStreams: limit('max. open streams per key', '200'),
  maxConcurrentReads: limit('max. concurrent reads per key', '100'),
  maxUnsentBytes: limit('max. bytes that the clients of a key may leave unread', '67108864'),
  maxThreads: limit('max. stored threads per tenant', '1000000'),
  maxConnections: limit('max. open connections', '10000'),
  maxUrlBytes: count('max. length of a request URL', '8192'),
  maxHeaderBytes: count('max. size of the request headers', '16384'),
  headersTimeout: duration('time limit for request headers to arrive', '20s'),
  requestTimeout: duration('time limit for a complete request to arrive', '60s'),
  keepAliveTimeout: duration('close idle connections after this long', '72s'),
  writeTimeout: duration('disconnect a client that reads nothing for this long', '30s'),
  instance: word(
    'a name',
    'name',
    'name of this process in turn records (host name and process id)',
  ),
  defaultProvider: word(
    'the id of a provider',
    'name',
    'provider of requests without a model (first with a key, or scripted)',
  ),
  scriptedSpeed: {
    schema: speed,
    takes: 'a number ≥ 0',
    about: 'speed of recorded turns; 2 is twice as fast, 0 does not wait',
    standard: '1',
    placeholder: 'n',
  },
  cassettes: {
    schema: list((written) => written),
    takes: 'comma-separated file names',
    about: 'cassettes that scripted plays, by file name (none)',
    placeholder: 'list',
  },
  record: word('a directory', 'directory', 'record provider responses here as cassettes (off)'),
  maxRecordedTurnBytes: count('max. recorded bytes of a turn', '4194304'),
  maxRecordedBytes: count('max. bytes of all recordings; the oldest are deleted', '268435456'),
  keysFile: word('a file name', 'file', 'file with API keys (none: every local user has access)'),
  streamTokenSecret: {
    schema: z.string().trim().min(32),
    takes: 'at least 32 characters long',
    about: 'signing secret of stream tokens, the same on all instances (random)',
    placeholder: 'text',
    secret: 'the stream token secret',
  },
  corsOrigins: {
    schema: list((written) => (written === ANY_ORIGIN ? ANY_ORIGIN : originOf(written))),
    takes: 'comma-separated origins such as https://app.example',
    about: 'web origins that may use the API (none)',
    placeholder: 'list',
  },
  allowedHosts: {
    schema: list(hostNameOf),
    takes: 'comma-separated names or addresses without a port',
    about: 'host names to accept, besides local ones on loopback without keys',
    placeholder: 'list',
  },
  logContent: toggle('log prompts and answers where an error quotes them'),
  logRequests: toggle('log every request, and the start and end of every turn'),
  openResponses: toggle('name events of /v1/responses as Open Responses does'),
  noPage: toggle('serve no chat page and no inspector'),
  allowPublicWithoutKeys: toggle('listen publicly without keys: anyone can use the server'),
} as const satisfies Record<
  string,
  Setting<string | number | boolean | readonly string[] | readonly number[]>
>

type Table = typeof SETTINGS
export type SettingName = keyof Table

type SettledName = {
  [Name in SettingName]: Table[Name] extends Settled<unknown> ? Name : never
}[SettingName]

/** The option of the library: a duration has `Ms` at the end. */
type OptionName<Name extends SettingName> = Table[Name] extends Span ? `${Name}Ms` : Name

type Options = {
  readonly [Name in SettledName as OptionName<Name>]: z.infer<Table[Name]['schema']>
} & {
  readonly [Name in Exclude<SettingName, SettledName> as OptionName<Name>]?: z.infer<
    Table[Name]['schema']
  >
}

export type Settings = Omit<Options, `${typeof GROUP}.${string}`> & {
  readonly [GROUP]: {
    readonly [Name in keyof Options as Name extends `${typeof GROUP}.${infer Field}`
      ? Field
      : never]: Options[Name]
  }
}

/** The settings that the file has as an object, and the options and variables with this prefix. */
export const GROUP = 'processor'

export const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[]

export const SECRET_NAMES = SETTING_NAMES.filter((name) => 'secret' in SETTINGS[name])

/** Decodes a part of the configuration file. `advise` says more about an unknown key. */
export function decodePart<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  { path, file }: { readonly path: string; readonly file: string },
  advise = (key: string, known: readonly string[]) => suggestion(key, known),
): z.infer<Schema> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const place = `${[path, ...(issue?.path ?? [])].map(String).join('.')} of ${file}`
  if (issue?.code !== 'unrecognized_keys') {
    throw new UsageError(`${place}: ${issue?.message ?? 'cannot be read'}`)
  }
  const [key = ''] = issue.keys
  const part = issue.path.reduce<unknown>(
    (at, name) => (at instanceof z.ZodObject ? at.shape[String(name)] : undefined),
    schema,
  )
  const known = part instanceof z.ZodObject ? Object.keys(part.shape) : []
  throw new UsageError(`${place} has an unknown key ${key}${advise(key, known)}`)
}

/** Decoded settings by name, without those that are unset. */
export function toSettings(values: ReadonlyMap<SettingName, unknown>): Settings {
  const settings: Record<string, unknown> = {}
  const group: Record<string, unknown> = {}
  for (const [name, value] of values) {
    if (value === undefined) continue
    const option = 'unit' in SETTINGS[name] ? `${name}Ms` : name
    const [first, field] = option.split('.')
    if (first === GROUP && field !== undefined) group[field] = value
    else settings[option] = value
  }
  return { ...settings, [GROUP]: group } as Settings
}

/** `shutdownGrace` is `--shutdown-grace`, `processor.retryMax` is `--processor-retry-max`. */
export function toFlag(name: SettingName): string {
  return name.replaceAll('.', '-').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

/** `shutdownGrace` is `TURNSTREAM_SHUTDOWN_GRACE`. */
export function toVariable(name: SettingName): string {
  return `TURNSTREAM_${toFlag(name).replaceAll('-', '_').toUpperCase()}`
}
